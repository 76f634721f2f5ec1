//! The random values of TPC-C: uniform and non-uniform numbers (clause 2.1.6), last names (4.3.2.3), strings (4.3.2.2).

/// `C` of NURand, one for each range; any constant is allowed.
const C_LAST: i64 = 123;
const C_CUSTOMER: i64 = 259;
const C_ITEM: i64 = 7911;
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Uniform, both ends included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high);
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    fn non_uniform(&mut self, a: i64, c: i64, low: i64, high: i64) -> i64 {
        let mixed = self.between(0, a) | self.between(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    pub fn customer(&mut self) -> i64 {
        self.non_uniform(1023, C_CUSTOMER, 1, 3000)
    }

    pub fn item(&mut self) -> i64 {
        self.non_uniform(8191, C_ITEM, 1, 100_000)
    }

    pub fn last_name(&mut self) -> String {
        last_name(self.non_uniform(255, C_LAST, 0, 999))
    }

    pub fn letters(&mut self, low: i64, high: i64) -> String {
        let len = self.between(low, high);
        (0..len)
            .map(|_| LETTERS[self.between(0, LETTERS.len() as i64 - 1) as usize] as char)
            .collect()
    }

    pub fn digits(&mut self, len: i64) -> String {
        (0..len)
            .map(|_| (b'0' + self.between(0, 9) as u8) as char)
            .collect()
    }

    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Letters of which a tenth contain "ORIGINAL".
    pub fn data(&mut self) -> String {
        let mut text = self.letters(26, 50);
        if self.between(1, 10) == 1 {
            let at = self.between(0, text.len() as i64 - 8) as usize;
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// An amount of money, bounds in cents.
    pub fn money(&mut self, low: i64, high: i64) -> String {
        cents(self.between(low, high))
    }

    /// The numbers from 1 to `count` in random order.
    pub fn permutation(&mut self, count: i64) -> Vec<i64> {
        let mut all: Vec<i64> = (1..=count).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.between(0, i as i64) as usize);
        }
        all
    }
}

pub fn last_name(number: i64) -> String {
    [number / 100, number / 10 % 10, number % 10]
        .map(|digit| SYLLABLES[digit as usize])
        .concat()
}

/// Cents as a decimal.
pub fn cents(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", amount.abs() / 100, amount.abs() % 100)
}
