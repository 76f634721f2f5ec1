//! The five transactions of clause 2.4 to 2.8, statement by statement as the standard's sample programs have them.

use std::io;

use crate::random::{Random, cents};
use crate::schema::{ITEMS, WAREHOUSE_DISTRICTS};
use crate::wire::{Connection, Failed, Row, Value};

const NOW: &str = "2026-02-02 02:02:02";
/// Characters that C_DATA holds.
const CUSTOMER_DATA: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// One terminal.
pub struct Client {
    connection: Connection,
    random: Random,
    warehouses: i64,
    home: i64,
}

/// What is ordered: item, supplying warehouse, quantity.
type Line = (i64, i64, i64);

/// A customer by number or by last name.
enum Who {
    Number(i64),
    Name(String),
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$(Value::from($value)),*] };
}

impl Client {
    pub fn new(connection: Connection, random: Random, warehouses: i64, number: i64) -> Self {
        Client {
            connection,
            random,
            warehouses,
            home: number % warehouses + 1,
        }
    }

    /// Runs one transaction of the mix until it is committed; how often it was rolled back before.
    pub fn next(&mut self) -> io::Result<(Kind, u64)> {
        match self.random.between(1, 100) {
            1..=45 => {
                let (district, customer) = (self.district(), self.random.customer());
                let lines = self.lines();
                self.commit(Kind::NewOrder, |c| c.new_order(district, customer, &lines))
            }
            46..=88 => {
                let (district, who) = (self.district(), self.who());
                let amount = self.random.between(100, 500_000);
                let (warehouse, other) = match self.random.between(1, 100) {
                    1..=85 => (self.home, district),
                    _ => (self.other_warehouse(), self.district()),
                };
                self.commit(Kind::Payment, |c| {
                    c.payment(district, (warehouse, other), &who, amount)
                })
            }
            89..=92 => {
                let (district, who) = (self.district(), self.who());
                self.commit(Kind::OrderStatus, |c| c.order_status(district, &who))
            }
            93..=96 => {
                let carrier = self.random.between(1, 10);
                self.commit(Kind::Delivery, |c| {
                    (1..=WAREHOUSE_DISTRICTS).try_for_each(|district| c.deliver(district, carrier))
                })
            }
            _ => {
                let (district, threshold) = (self.district(), self.random.between(10, 20));
                self.commit(Kind::StockLevel, |c| c.stock_level(district, threshold))
            }
        }
    }

    fn district(&mut self) -> i64 {
        self.random.between(1, WAREHOUSE_DISTRICTS)
    }

    fn other_warehouse(&mut self) -> i64 {
        match self.warehouses {
            1 => 1,
            n => (self.home + self.random.between(0, n - 2)) % n + 1,
        }
    }

    fn who(&mut self) -> Who {
        match self.random.between(1, 100) {
            1..=60 => Who::Name(self.random.last_name()),
            _ => Who::Number(self.random.customer()),
        }
    }

    /// What an order is for; one in a hundred names an item that does not exist, last.
    fn lines(&mut self) -> Vec<Line> {
        let count = self.random.between(5, 15);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let warehouse = match self.random.between(1, 100) {
                    1 => self.other_warehouse(),
                    _ => self.home,
                };
                (self.random.item(), warehouse, self.random.between(1, 10))
            })
            .collect();
        // In one order for all: fewer deadlocks.
        lines.sort_unstable();
        if self.random.between(1, 100) == 1 {
            lines.push((ITEMS + 1, self.home, 1));
        }
        lines
    }

    fn commit(
        &mut self,
        kind: Kind,
        mut transaction: impl FnMut(&mut Self) -> Result<(), Failed>,
    ) -> io::Result<(Kind, u64)> {
        let mut retried = 0;
        loop {
            let done = (self.connection.query("START TRANSACTION").map(drop))
                .and_then(|()| transaction(self))
                .and_then(|()| self.connection.query("COMMIT").map(drop));
            match done {
                Ok(()) => return Ok((kind, retried)),
                Err(Failed::Other(error)) => return Err(error),
                Err(Failed::Transient) => retried += 1,
            }
            if self.connection.query("ROLLBACK").is_err() {
                return Err(io::Error::other("a transaction cannot be rolled back"));
            }
        }
    }

    /// The row that there must be.
    fn one(&mut self, text: &'static str, values: &[Value]) -> Result<Row, Failed> {
        let rows = self.connection.run(text, values)?;
        let first = rows.into_iter().next();
        first.ok_or_else(|| io::Error::other(format!("no row: {text}")).into())
    }

    fn new_order(&mut self, district: i64, customer: i64, lines: &[Line]) -> Result<(), Failed> {
        let home = self.home;
        self.one(
            "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
             WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?",
            values![home, district, customer],
        )?;
        let row = self.one(
            "SELECT d_next_o_id, d_tax FROM district WHERE d_id = ? AND d_w_id = ? FOR UPDATE",
            values![district, home],
        )?;
        let order = integer(&row[0])?;
        self.connection.run(
            "UPDATE district SET d_next_o_id = ? WHERE d_id = ? AND d_w_id = ?",
            values![order + 1, district, home],
        )?;
        let is_local = lines.iter().all(|line| line.1 == home);
        self.connection.run(
            "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            values![
                order,
                district,
                home,
                customer,
                NOW,
                lines.len() as i64,
                i64::from(is_local)
            ],
        )?;
        self.connection.run(
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)",
            values![order, district, home],
        )?;
        for (number, line) in (1..).zip(lines) {
            if !self.order_line((order, district, number), *line)? {
                // Clause 2.4.1.4: the order is given up.
                self.connection.query("ROLLBACK")?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// False if there is no such item. `key` is order, district and number of the line.
    fn order_line(&mut self, key: (i64, i64, i64), line: Line) -> Result<bool, Failed> {
        let ((order, district, number), (item, supplier, quantity)) = (key, line);
        let found = self.connection.run(
            "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?",
            values![item],
        )?;
        let Some(row) = found.first() else {
            return Ok(false);
        };
        let price = hundredths(&row[0])?;
        let row = self.one(STOCK_OF[district as usize - 1], values![item, supplier])?;
        let left = integer(&row[0])? - quantity;
        let left = if left >= 10 { left } else { left + 91 };
        self.connection.run(
            "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?",
            values![
                left,
                quantity,
                i64::from(supplier != self.home),
                item,
                supplier
            ],
        )?;
        self.connection.run(
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
             ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values![
                order,
                district,
                self.home,
                number,
                item,
                supplier,
                quantity,
                money(price * quantity),
                row[2].as_str()
            ],
        )?;
        Ok(true)
    }

    /// The number of a customer; of several with a name the one in the middle by first name.
    fn customer(&mut self, warehouse: i64, district: i64, who: &Who) -> Result<i64, Failed> {
        let name = match who {
            Who::Number(number) => return Ok(*number),
            Who::Name(name) => name,
        };
        let rows = self.connection.run(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
            values![warehouse, district, name.as_str()],
        )?;
        let middle = rows.get(rows.len().div_ceil(2).saturating_sub(1));
        integer(&middle.ok_or_else(|| io::Error::other("a name that nobody has"))?[0])
    }

    fn payment(
        &mut self,
        district: i64,
        (warehouse, other): (i64, i64),
        who: &Who,
        amount: i64,
    ) -> Result<(), Failed> {
        let home = self.home;
        self.connection.run(
            "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?",
            values![money(amount), home],
        )?;
        let w = self.one(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?",
            values![home],
        )?;
        self.connection.run(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            values![money(amount), home, district],
        )?;
        let d = self.one(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
             WHERE d_w_id = ? AND d_id = ?",
            values![home, district],
        )?;
        let customer = self.customer(warehouse, other, who)?;
        let c = self.one(
            "SELECT c_balance, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
             c_phone, c_credit_lim, c_discount, c_since FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            values![warehouse, other, customer],
        )?;
        let balance = money(hundredths(&c[0])? - amount);
        let places = [customer, other, warehouse, district, home];
        self.pay(places, amount, balance, c[1] == "BC")?;
        self.connection.run(
            "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values![
                other,
                warehouse,
                customer,
                district,
                home,
                NOW,
                money(amount),
                format!("{}    {}", w[0], d[0])
            ],
        )?;
        Ok(())
    }

    /// Notes the payment at the customer; one with bad credit keeps a history of them.
    fn pay(
        &mut self,
        [customer, other, warehouse, district, home]: [i64; 5],
        amount: i64,
        balance: Value,
        has_bad_credit: bool,
    ) -> Result<(), Failed> {
        let key = [warehouse, other, customer].map(Value::from);
        let paid = cents(amount);
        if has_bad_credit {
            let data = self.one(
                "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &key,
            )?;
            let mut data = format!(
                "{customer} {other} {warehouse} {district} {home} {paid} {}",
                data[0]
            );
            data.truncate(CUSTOMER_DATA);
            let mut all = vec![balance, money(amount), data.into()];
            all.extend(key);
            self.connection.run(
                "UPDATE customer SET c_balance = ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &all,
            )?;
        } else {
            let mut all = vec![balance, money(amount)];
            all.extend(key);
            self.connection.run(
                "UPDATE customer SET c_balance = ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &all,
            )?;
        }
        Ok(())
    }

    fn order_status(&mut self, district: i64, who: &Who) -> Result<(), Failed> {
        let home = self.home;
        let customer = self.customer(home, district, who)?;
        self.one(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            values![home, district, customer],
        )?;
        let order = self.one(
            "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
             ORDER BY o_id DESC LIMIT 1",
            values![home, district, customer],
        )?;
        self.connection.run(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            values![home, district, integer(&order[0])?],
        )?;
        Ok(())
    }

    /// Delivers the oldest new order of a district, if there is one.
    fn deliver(&mut self, district: i64, carrier: i64) -> Result<(), Failed> {
        let home = self.home;
        let found = self.connection.run(
            "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE",
            values![home, district],
        )?;
        let Some(row) = found.first() else {
            return Ok(());
        };
        let order = integer(&row[0])?;
        let key = values![home, district, order];
        self.connection.run(
            "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            key,
        )?;
        let row = self.one(
            "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            key,
        )?;
        let customer = integer(&row[0])?;
        self.connection.run(
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            values![carrier, home, district, order],
        )?;
        self.connection.run(
            "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            values![NOW, home, district, order],
        )?;
        let total = self.one(
            "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            key,
        )?;
        self.connection.run(
            "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            values![Value::Decimal(total[0].clone()), home, district, customer],
        )?;
        Ok(())
    }

    fn stock_level(&mut self, district: i64, threshold: i64) -> Result<(), Failed> {
        let home = self.home;
        let row = self.one(
            "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?",
            values![home, district],
        )?;
        let next = integer(&row[0])?;
        self.one(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? \
             AND ol_o_id < ? AND ol_o_id >= ? AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?",
            values![home, district, next, next - 20, home, threshold],
        )?;
        Ok(())
    }
}

/// The stock of an item, with what a line of each district says of it.
const STOCK_OF: [&str; WAREHOUSE_DISTRICTS as usize] = [
    "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_02 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_04 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_05 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_06 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_07 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_08 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_09 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_10 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
];

fn integer(text: &str) -> Result<i64, Failed> {
    text.parse()
        .map_err(|_| io::Error::other(format!("{text} is no integer")).into())
}

fn money(amount: i64) -> Value {
    Value::Decimal(cents(amount))
}

/// A decimal of two places in hundredths.
fn hundredths(text: &str) -> Result<i64, Failed> {
    integer(&text.replace('.', ""))
}
