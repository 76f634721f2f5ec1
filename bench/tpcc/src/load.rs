//! The rows of clause 4.3.3, table after table in the order of the primary key.

use std::io;

use crate::random::{Random, last_name};
use crate::schema::{
    DELIVERED_ORDERS, DISTRICT_CUSTOMERS, DISTRICT_ORDERS, ITEMS, TABLES, WAREHOUSE_DISTRICTS,
};
use crate::wire::{Connection, Failed};

/// Bytes of an INSERT before it is sent.
const BATCH: usize = 200_000;
/// What a row of a new database says when it was made.
const THEN: &str = "2026-01-01 00:00:00";

/// Rows of one table that are sent many at a time.
struct Rows<'a> {
    connection: &'a mut Connection,
    table: &'static str,
    text: String,
}

impl<'a> Rows<'a> {
    fn new(connection: &'a mut Connection, table: &'static str) -> Self {
        Rows {
            connection,
            table,
            text: String::new(),
        }
    }

    /// `row` is what stands between the parentheses.
    fn add(&mut self, row: &str) -> io::Result<()> {
        match self.text.is_empty() {
            true => self.text = format!("INSERT INTO {} VALUES ", self.table),
            false => self.text.push(','),
        }
        self.text += &format!("({row})");
        match self.text.len() >= BATCH {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        if !self.text.is_empty() {
            run(self.connection, &self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

fn run(connection: &mut Connection, text: &str) -> io::Result<()> {
    match connection.query(text) {
        Ok(_) => Ok(()),
        Err(Failed::Transient) => Err(io::Error::other("a deadlock without others")),
        Err(Failed::Other(error)) => Err(error),
    }
}

/// Makes the database anew.
pub fn load(port: u16, warehouses: i64) -> io::Result<()> {
    let connection = &mut Connection::open(port, "", true)?;
    run(connection, "DROP DATABASE IF EXISTS tpcc")?;
    run(connection, "CREATE DATABASE tpcc")?;
    run(connection, "USE tpcc")?;
    for table in TABLES {
        run(connection, table)?;
    }
    let random = &mut Random::new(42);
    items(connection, random)?;
    for w in 1..=warehouses {
        warehouse(connection, random, w)?;
        stock(connection, random, w)?;
        customers(connection, random, w)?;
        orders(connection, random, w)?;
    }
    Ok(())
}

fn items(connection: &mut Connection, random: &mut Random) -> io::Result<()> {
    let mut rows = Rows::new(connection, "item");
    for i in 1..=ITEMS {
        rows.add(&format!(
            "{i},{},'{}',{},'{}'",
            random.between(1, 10_000),
            random.letters(14, 24),
            random.money(100, 10_000),
            random.data()
        ))?;
    }
    rows.send()
}

/// Two streets, city, state and zip, quoted.
fn address(random: &mut Random) -> String {
    format!(
        "'{}','{}','{}','{}','{}'",
        random.letters(10, 20),
        random.letters(10, 20),
        random.letters(10, 20),
        random.letters(2, 2),
        random.zip()
    )
}

fn tax(random: &mut Random) -> String {
    format!("0.{:04}", random.between(0, 2000))
}

fn warehouse(connection: &mut Connection, random: &mut Random, w: i64) -> io::Result<()> {
    let mut rows = Rows::new(connection, "warehouse");
    let (name, place, rate) = (random.letters(6, 10), address(random), tax(random));
    rows.add(&format!("{w},'{name}',{place},{rate},300000.00"))?;
    rows.send()?;
    let mut rows = Rows::new(connection, "district");
    for d in 1..=WAREHOUSE_DISTRICTS {
        let (name, place, rate) = (random.letters(6, 10), address(random), tax(random));
        let next = DISTRICT_ORDERS + 1;
        rows.add(&format!("{d},{w},'{name}',{place},{rate},30000.00,{next}"))?;
    }
    rows.send()
}

fn stock(connection: &mut Connection, random: &mut Random, w: i64) -> io::Result<()> {
    let mut rows = Rows::new(connection, "stock");
    for i in 1..=ITEMS {
        let quantity = random.between(10, 100);
        let districts: String = (0..WAREHOUSE_DISTRICTS)
            .map(|_| format!("'{}',", random.letters(24, 24)))
            .collect();
        rows.add(&format!(
            "{i},{w},{quantity},{districts}0,0,0,'{}'",
            random.data()
        ))?;
    }
    rows.send()
}

fn customers(connection: &mut Connection, random: &mut Random, w: i64) -> io::Result<()> {
    let mut rows = Rows::new(connection, "customer");
    for d in 1..=WAREHOUSE_DISTRICTS {
        for c in 1..=DISTRICT_CUSTOMERS {
            let last = match c {
                1..=1000 => last_name(c - 1),
                _ => random.last_name(),
            };
            let credit = if random.between(1, 10) == 1 {
                "BC"
            } else {
                "GC"
            };
            rows.add(&format!(
                "{c},{d},{w},'{}','OE','{last}',{},'{}','{THEN}','{credit}',50000.00,0.{:04},-10.00,10.00,1,0,'{}'",
                random.letters(8, 16),
                address(random),
                random.digits(16),
                random.between(0, 5000),
                random.letters(300, 500)
            ))?;
        }
    }
    rows.send()?;
    let mut rows = Rows::new(connection, "history");
    for d in 1..=WAREHOUSE_DISTRICTS {
        for c in 1..=DISTRICT_CUSTOMERS {
            let data = random.letters(12, 24);
            rows.add(&format!("{c},{d},{w},{d},{w},'{THEN}',10.00,'{data}'"))?;
        }
    }
    rows.send()
}

fn orders(connection: &mut Connection, random: &mut Random, w: i64) -> io::Result<()> {
    let mut lines = Vec::new();
    let mut rows = Rows::new(connection, "orders");
    for d in 1..=WAREHOUSE_DISTRICTS {
        let customers = random.permutation(DISTRICT_CUSTOMERS);
        for (o, c) in (1..).zip(customers) {
            let (count, is_delivered) = (random.between(5, 15), o <= DELIVERED_ORDERS);
            let carrier = match is_delivered {
                true => random.between(1, 10).to_string(),
                false => "NULL".to_owned(),
            };
            rows.add(&format!("{o},{d},{w},{c},'{THEN}',{carrier},{count},1"))?;
            lines.extend((1..=count).map(|number| (o, d, number, is_delivered)));
        }
    }
    rows.send()?;
    let mut rows = Rows::new(connection, "order_line");
    for (o, d, number, is_delivered) in lines {
        let (delivery, amount) = match is_delivered {
            true => (format!("'{THEN}'"), "0.00".to_owned()),
            false => ("NULL".to_owned(), random.money(1, 999_999)),
        };
        rows.add(&format!(
            "{o},{d},{w},{number},{},{w},{delivery},5,{amount},'{}'",
            random.between(1, ITEMS),
            random.letters(24, 24)
        ))?;
    }
    rows.send()?;
    let mut rows = Rows::new(connection, "new_order");
    for d in 1..=WAREHOUSE_DISTRICTS {
        for o in DELIVERED_ORDERS + 1..=DISTRICT_ORDERS {
            rows.add(&format!("{o},{d},{w}"))?;
        }
    }
    rows.send()
}
