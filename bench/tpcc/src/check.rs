//! The consistency conditions of clause 3.3.2, each as a query that finds what breaks it.

use std::io;

use crate::wire::{Connection, Failed};

const CONDITIONS: [(&str, &str); 9] = [
    (
        "1: W_YTD = sum(D_YTD)",
        "SELECT w_id FROM warehouse JOIN (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) AS d \
         ON d_w_id = w_id WHERE w_ytd <> total",
    ),
    (
        "2: D_NEXT_O_ID - 1 = max(O_ID)",
        "SELECT d_w_id FROM district JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS last FROM orders \
         GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id WHERE d_next_o_id - 1 <> last",
    ),
    (
        "2: max(NO_O_ID) is not above max(O_ID)",
        "SELECT d_w_id FROM district JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS last FROM new_order \
         GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id WHERE d_next_o_id - 1 <> last",
    ),
    (
        "3: new orders have no gaps",
        "SELECT no_w_id FROM new_order GROUP BY no_w_id, no_d_id \
         HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
    ),
    (
        "4: sum(O_OL_CNT) = number of order lines",
        "SELECT o_w_id FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS total FROM orders GROUP BY o_w_id, o_d_id) AS o \
         JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS number FROM order_line GROUP BY ol_w_id, ol_d_id) AS l \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id WHERE total <> number",
    ),
    (
        "5: an order has no carrier if and only if it is new",
        "SELECT o_w_id FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL) LIMIT 1",
    ),
    (
        "6: each order has O_OL_CNT lines",
        "SELECT o_w_id FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS number FROM order_line \
         GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE number IS NULL OR number <> o_ol_cnt LIMIT 1",
    ),
    (
        "8: W_YTD = sum(H_AMOUNT)",
        "SELECT w_id FROM warehouse JOIN (SELECT h_w_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id) AS h \
         ON h_w_id = w_id WHERE w_ytd <> total",
    ),
    (
        "9: D_YTD = sum(H_AMOUNT)",
        "SELECT d_w_id FROM district JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS total FROM history \
         GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> total",
    ),
];

pub fn check(port: u16) -> io::Result<()> {
    let mut connection = Connection::open(port, "tpcc", true)?;
    for (name, query) in CONDITIONS {
        match connection.query(query) {
            Ok(broken) if broken.is_empty() => println!("holds {name}"),
            Ok(_) => return Err(io::Error::other(format!("broken {name}"))),
            Err(Failed::Transient) => return Err(io::Error::other("a deadlock of a reader")),
            Err(Failed::Other(error)) => return Err(error),
        }
    }
    Ok(())
}
