//! The words the grammar knows, and which of them MySQL 8.4 reserves.
//!
//! Neighbours: `lexer` looks every unquoted word up once; the parser compares enum values.
//! **Invariants**: a word not in the table is [`Kw::OTHER`]; lookup is case-insensitive; the hash table
//! is built at compile time and holds every keyword exactly once.

macro_rules! keywords {
    (reserved: $($r:ident)*; plain: $($p:ident)*;) => {
        /// A keyword, or [`Kw::OTHER`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        #[expect(missing_docs, reason = "a keyword is its own documentation")]
        #[expect(non_camel_case_types, reason = "keywords look like themselves")]
        #[allow(clippy::upper_case_acronyms, reason = "keywords look like themselves")]
        pub enum Kw { OTHER, $($r,)* $($p,)* }

        /// Text of every keyword, in the enum's order.
        const NAMES: &[&str] = &["", $(stringify!($r),)* $(stringify!($p),)*];
        const ALL: &[Kw] = &[Kw::OTHER, $(Kw::$r,)* $(Kw::$p,)*];
        /// Keywords up to this one are reserved.
        const RESERVED: usize = [$(stringify!($r)),*].len();
    };
}

keywords! {
    reserved:
    ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB BOTH BY
    CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT CONTINUE CONVERT
    CREATE CROSS CUBE CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR
    DATABASE DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE DEFAULT
    DELAYED DELETE DENSE_RANK DESC DESCRIBE DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL
    EACH ELSE ELSEIF EMPTY ENCLOSED ESCAPED EXCEPT EXISTS EXIT EXPLAIN FALSE FETCH FIRST_VALUE FLOAT
    FLOAT4 FLOAT8 FOR FORCE FOREIGN FROM FULLTEXT FUNCTION GENERATED GET GRANT GROUP GROUPING GROUPS
    HAVING HIGH_PRIORITY HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT
    INSENSITIVE INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER INTERSECT INTERVAL INTO IO_AFTER_GTIDS
    IO_BEFORE_GTIDS IS ITERATE JOIN JSON_TABLE KEY KEYS KILL LAG LAST_VALUE LATERAL LEAD LEADING LEAVE
    LEFT LIKE LIMIT LINEAR LINES LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LOOP
    LOW_PRIORITY MANUAL MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND
    MINUTE_SECOND MOD MODIFIES NATURAL NOT NO_WRITE_TO_BINLOG NTH_VALUE NTILE NULL NUMERIC OF ON
    OPTIMIZE OPTIMIZER_COSTS OPTION OPTIONALLY OR ORDER OUT OUTER OUTFILE OVER PARALLEL PARTITION
    PERCENT_RANK PRECISION PRIMARY PROCEDURE PURGE QUALIFY RANGE RANK READ READS READ_WRITE REAL
    RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE
    RIGHT RLIKE ROW ROWS ROW_NUMBER SCHEMA SCHEMAS SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET
    SHOW SIGNAL SMALLINT SPATIAL SPECIFIC SQL SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT
    SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SSL STARTING STORED STRAIGHT_JOIN SYSTEM TABLE TABLESAMPLE
    TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK
    UNSIGNED UPDATE USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES VARBINARY VARCHAR
    VARCHARACTER VARYING VIRTUAL WHEN WHERE WHILE WINDOW WITH WRITE XOR YEAR_MONTH ZEROFILL;
    plain:
    ACCOUNT ACTION ADDDATE ADMIN AFTER AGAINST ALGORITHM ALWAYS ANY ARRAY ASCII AT ATTRIBUTE
    AUTO AUTOEXTEND_SIZE AUTO_INCREMENT AVG AVG_ROW_LENGTH BACKUP BEGIN BINLOG BIT BIT_AND BIT_OR BIT_XOR
    BOOL BOOLEAN BTREE BUCKETS BYTE CACHE CASCADED CAST CHAIN CHANGED CHANNEL CHARSET CHECKSUM CLONE
    COALESCE COLLATION COLUMNS COLUMN_FORMAT COMMENT COMMIT COMPONENT COMPRESSION CONCURRENT CONNECTION
    CONSISTENT COUNT CURDATE CURRENT CURTIME DATA DATE DATETIME DATE_ADD DATE_SUB DAY DEALLOCATE DEFINER
    DELAY_KEY_WRITE DIAGNOSTICS DIRECTORY DISABLE DISCARD DO DUMPFILE DUPLICATE DYNAMIC ENABLE
    ENCRYPTION END ENFORCED ENGINE ENGINES ENGINE_ATTRIBUTE ENUM ERROR ERRORS ESCAPE EVENT EVENTS
    EXCHANGE EXCLUDE EXECUTE EXPANSION EXPIRE EXPORT EXTENDED EXTRACT FAILED_LOGIN_ATTEMPTS FAST FIELDS
    FILTER FIRST FIXED FLUSH FOLLOWING FORMAT FULL GENERAL GEOMCOLLECTION GEOMETRY GEOMETRYCOLLECTION
    GET_FORMAT GLOBAL GRANTS GROUP_CONCAT GTIDS HANDLER HASH HELP HISTOGRAM HISTORY HOST HOSTS HOUR
    IDENTIFIED IMPORT INDEXES INITIAL INSERT_METHOD INSTALL INSTANCE INVISIBLE INVOKER IO_THREAD
    ISOLATION ISSUER JSON JSON_ARRAYAGG JSON_OBJECTAGG JSON_VALUE KEY_BLOCK_SIZE LANGUAGE LAST LESS
    LEVEL LINESTRING LIST LOCAL LOCKED LOGFILE LOGS MASTER MAX MAX_CONNECTIONS_PER_HOUR
    MAX_QUERIES_PER_HOUR MAX_ROWS MAX_UPDATES_PER_HOUR MAX_USER_CONNECTIONS MEDIUM MEMBER MERGE
    MICROSECOND MID MIGRATE MIN MINUTE MIN_ROWS MODE MODIFY MONTH MULTILINESTRING MULTIPOINT
    MULTIPOLYGON MUTEX NAMES NATIONAL NCHAR NEVER NEXT NO NONE NOW NOWAIT NULLS
    NODEGROUP NVARCHAR OFFSET OJ OLD ONE ONLINE ONLY OPEN OPTIONAL OPTIONS ORGANIZATION OTHERS OWNER PACKAGE
    PACK_KEYS PARSER PARTITIONING PARTITIONS PASSWORD PASSWORD_LOCK_TIME PERSIST PERSIST_ONLY PHASE
    PLUGIN PLUGINS POINT POLYGON POSITION PRECEDING PREPARE PREV PRIVILEGES PROCESS PROCESSLIST PROFILE
    PROFILES PROXY QUARTER QUERY QUICK RANDOM REBUILD RECOVER RELAY RELAYLOG RELOAD REMOVE REORGANIZE
    REPAIR REPEATABLE REPLICA REPLICAS REPLICATION RESET RESOURCE RESPECT RESTART RESUME RETAIN
    RETURNING REUSE REVERSE ROLE ROLLBACK ROLLUP ROUTINE ROW_FORMAT SAVEPOINT SCHEDULE SECOND
    SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE SECONDARY_LOAD SECONDARY_UNLOAD SECURITY SEQUENCE
    SERIAL SERIALIZABLE SERVER SESSION SESSION_USER SETS SHARE SHUTDOWN SIGNED SKIP SLAVE SLAVES SLOW
    SNAPSHOT SOME SONAME SOUNDS SOURCE SQL_BUFFER_RESULT SQL_CACHE SQL_NO_CACHE
    SQL_THREAD SRID STAGE START STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES STATUS STD STDDEV
    STDDEV_POP STDDEV_SAMP STOP STORAGE STRING SUBDATE SUBJECT SUBPARTITION SUBPARTITIONS
    SUBSTR SUBSTRING SUM SUPER SUSPEND
    SYSDATE SYSTEM_USER TABLES TABLESPACE TEMPORARY TEMPTABLE TEXT THAN TIES TIME TIMESTAMP
    TIMESTAMPADD TIMESTAMPDIFF TRANSACTION TRIGGERS TRIM TRUNCATE TYPE UNBOUNDED UNCOMMITTED UNDEFINED
    UNICODE UNINSTALL UNKNOWN UNTIL UPGRADE USER USER_RESOURCES USE_FRM VALIDATION VALUE VARIABLES
    VARIANCE VAR_POP VAR_SAMP VECTOR VIEW VISIBLE WAIT WARNINGS WEEK WEIGHT_STRING WITHOUT WORK WRAPPER
    X509 XA XID XML YEAR CIPHER COMMITTED;
}

/// Every word that means something somewhere, and whether it is reserved.
pub fn words() -> impl Iterator<Item = (&'static str, bool)> {
    let words = ALL.iter().filter(|kw| **kw != Kw::OTHER);
    words.map(|kw| (kw.text(), kw.reserved()))
}

impl Kw {
    /// May this word not be an unquoted name?
    pub fn reserved(self) -> bool {
        self != Kw::OTHER && self as usize <= RESERVED
    }

    /// Upper-case text.
    pub fn text(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Looks a word up.
    pub fn lookup(word: &[u8]) -> Kw {
        if word.len() > LONGEST {
            return Kw::OTHER;
        }
        let mut slot = hash(word) & MASK;
        loop {
            let i = TABLE[slot] as usize;
            if i == 0 {
                return Kw::OTHER;
            }
            if word.eq_ignore_ascii_case(NAMES[i].as_bytes()) {
                return ALL[i];
            }
            slot = (slot + 1) & MASK;
        }
    }

    /// A word that is a function only when `(` follows it directly (unless IGNORE_SPACE), and a plain
    /// name otherwise.
    pub fn is_function_word(self) -> bool {
        use Kw::*;
        matches!(
            self,
            BIT_AND
                | BIT_OR
                | BIT_XOR
                | CAST
                | COUNT
                | CURDATE
                | CURTIME
                | DATE_ADD
                | DATE_SUB
                | EXTRACT
                | GROUP_CONCAT
                | JSON_ARRAYAGG
                | JSON_OBJECTAGG
                | MAX
                | MID
                | MIN
                | NOW
                | POSITION
                | STD
                | STDDEV
                | STDDEV_POP
                | STDDEV_SAMP
                | SUBSTR
                | SUBSTRING
                | SUM
                | SYSDATE
                | TRIM
                | VARIANCE
                | VAR_POP
                | VAR_SAMP
        )
    }

    /// Does it begin statements that take metadata locks, and may say in a hint how long they wait for them?
    pub fn may_have_wait_hint(self) -> bool {
        use Kw::*;
        matches!(
            self,
            ALTER | ANALYZE | CREATE | DROP | LOCK | OPTIMIZE | RENAME | TRUNCATE
        )
    }
}

/// Slots of the hash table: at least twice the number of keywords.
const SLOTS: usize = 2048;
const MASK: usize = SLOTS - 1;
const _: () = assert!(NAMES.len() * 2 <= SLOTS);
static TABLE: [u16; SLOTS] = build();
const LONGEST: usize = longest();

const fn hash(word: &[u8]) -> usize {
    let mut h: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < word.len() {
        h = (h ^ (word[i] | 0x20) as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (h ^ (h >> 15)) as usize
}

const fn build() -> [u16; SLOTS] {
    let mut table = [0u16; SLOTS];
    let mut i = 1;
    while i < NAMES.len() {
        let mut slot = hash(NAMES[i].as_bytes()) & MASK;
        while table[slot] != 0 {
            slot = (slot + 1) & MASK;
        }
        table[slot] = i as u16;
        i += 1;
    }
    table
}

const fn longest() -> usize {
    let mut max = 0;
    let mut i = 0;
    while i < NAMES.len() {
        if NAMES[i].len() > max {
            max = NAMES[i].len();
        }
        i += 1;
    }
    max
}

/// Is `name` (without the underscore) a character set MySQL knows, so that `_name'…'` is an
/// introducer?
pub fn is_charset(name: &[u8]) -> bool {
    const CHARSETS: &[&str] = &[
        "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850",
        "cp852", "cp866", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk",
        "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2",
        "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16",
        "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4",
    ];
    CHARSETS
        .iter()
        .any(|c| name.eq_ignore_ascii_case(c.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (i, name) in NAMES.iter().enumerate().skip(1) {
            assert_eq!(Kw::lookup(name.as_bytes()) as usize, i, "{name}");
            assert_eq!(
                Kw::lookup(name.to_ascii_lowercase().as_bytes()) as usize,
                i,
                "{name}"
            );
        }
        assert_eq!(Kw::lookup(b"sbtest1"), Kw::OTHER);
        assert_eq!(Kw::lookup(b""), Kw::OTHER);
        assert_eq!(Kw::lookup(&[b'a'; 100]), Kw::OTHER);
    }

    #[test]
    fn reserved_words_end_where_the_list_says() {
        assert!(Kw::lookup(b"zerofill").reserved());
        assert!(Kw::lookup(b"accessible").reserved());
        assert!(!Kw::lookup(b"account").reserved());
        assert!(!Kw::OTHER.reserved());
    }
}
