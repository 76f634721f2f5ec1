//! Protocol constants: capability bits, status bits, column types and flags.
//!
//! Source: MySQL 8.4 `mysql_com.h` and `field_types.h`, as the protocol documentation lists them.

/// Capability bits of the handshake (`CLIENT_*`).
pub mod cap {
    /// Improved passwords.
    pub const LONG_PASSWORD: u32 = 1;
    /// Affected rows = rows found, not rows changed.
    pub const FOUND_ROWS: u32 = 1 << 1;
    /// Longer column flags.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// Database name in the handshake response.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// Do not allow database.table.column.
    pub const NO_SCHEMA: u32 = 1 << 4;
    /// zlib compression.
    pub const COMPRESS: u32 = 1 << 5;
    /// ODBC client.
    pub const ODBC: u32 = 1 << 6;
    /// LOAD DATA LOCAL.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// Spaces before '('.
    pub const IGNORE_SPACE: u32 = 1 << 8;
    /// The 4.1 protocol; required.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// Interactive client: `interactive_timeout`.
    pub const INTERACTIVE: u32 = 1 << 10;
    /// TLS follows the SSL request packet.
    pub const SSL: u32 = 1 << 11;
    /// The client knows about transaction status.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// 4.1 authentication.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several statements in one COM_QUERY.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    /// Several result sets per COM_QUERY.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Several result sets per COM_STMT_EXECUTE.
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    /// Authentication plugins.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Connection attributes.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    /// Length-encoded authentication data.
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    /// The client can go on with an expired password, to change it.
    pub const EXPIRED_PASSWORDS: u32 = 1 << 22;
    /// Session state in OK packets.
    pub const SESSION_TRACK: u32 = 1 << 23;
    /// OK instead of EOF at the end of rows.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    /// zstd compression.
    pub const ZSTD_COMPRESSION: u32 = 1 << 26;
    /// Query attributes in COM_QUERY and COM_STMT_EXECUTE.
    pub const QUERY_ATTRIBUTES: u32 = 1 << 27;

    /// What this server announces; `SSL` and compression are added by configuration.
    pub const SERVER: u32 = LONG_PASSWORD
        | FOUND_ROWS
        | LONG_FLAG
        | CONNECT_WITH_DB
        | NO_SCHEMA
        | ODBC
        | LOCAL_FILES
        | IGNORE_SPACE
        | PROTOCOL_41
        | INTERACTIVE
        | TRANSACTIONS
        | SECURE_CONNECTION
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | CONNECT_ATTRS
        | PLUGIN_AUTH_LENENC
        | EXPIRED_PASSWORDS
        | SESSION_TRACK
        | DEPRECATE_EOF
        | QUERY_ATTRIBUTES;
}

/// Server status bits of OK and EOF packets (`SERVER_STATUS_*`).
pub mod status {
    /// A transaction is open.
    pub const IN_TRANS: u16 = 1;
    /// autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// A cursor is open.
    pub const CURSOR_EXISTS: u16 = 64;
    /// The cursor has sent its last row.
    pub const LAST_ROW_SENT: u16 = 128;
    /// NO_BACKSLASH_ESCAPES is in force.
    pub const NO_BACKSLASH_ESCAPES: u16 = 512;
    /// The transaction is read-only.
    pub const IN_TRANS_READONLY: u16 = 8192;
    /// Session state information follows in the OK packet.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// Column type codes (`MYSQL_TYPE_*`).
pub mod coltype {
    /// Old DECIMAL.
    pub const DECIMAL: u8 = 0;
    /// TINYINT.
    pub const TINY: u8 = 1;
    /// SMALLINT.
    pub const SHORT: u8 = 2;
    /// INT.
    pub const LONG: u8 = 3;
    /// FLOAT.
    pub const FLOAT: u8 = 4;
    /// DOUBLE.
    pub const DOUBLE: u8 = 5;
    /// NULL.
    pub const NULL: u8 = 6;
    /// TIMESTAMP.
    pub const TIMESTAMP: u8 = 7;
    /// BIGINT.
    pub const LONGLONG: u8 = 8;
    /// MEDIUMINT.
    pub const INT24: u8 = 9;
    /// DATE.
    pub const DATE: u8 = 10;
    /// TIME.
    pub const TIME: u8 = 11;
    /// DATETIME.
    pub const DATETIME: u8 = 12;
    /// YEAR.
    pub const YEAR: u8 = 13;
    /// VARCHAR (internal).
    pub const VARCHAR: u8 = 15;
    /// BIT.
    pub const BIT: u8 = 16;
    /// JSON.
    pub const JSON: u8 = 245;
    /// GEOMETRY and its kin.
    pub const GEOMETRY: u8 = 255;
    /// DECIMAL.
    pub const NEWDECIMAL: u8 = 246;
    /// ENUM.
    pub const ENUM: u8 = 247;
    /// SET.
    pub const SET: u8 = 248;
    /// TINYBLOB.
    pub const TINY_BLOB: u8 = 249;
    /// MEDIUMBLOB.
    pub const MEDIUM_BLOB: u8 = 250;
    /// LONGBLOB.
    pub const LONG_BLOB: u8 = 251;
    /// BLOB and TEXT.
    pub const BLOB: u8 = 252;
    /// VARCHAR and VARBINARY.
    pub const VAR_STRING: u8 = 253;
    /// CHAR, BINARY, ENUM and SET on the wire.
    pub const STRING: u8 = 254;
}

/// Column flags of a column definition.
pub mod colflag {
    /// NOT NULL.
    pub const NOT_NULL: u16 = 1;
    /// Part of the primary key.
    pub const PRI_KEY: u16 = 2;
    /// Part of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// Part of a non-unique key.
    pub const MULTIPLE_KEY: u16 = 8;
    /// TEXT or BLOB.
    pub const BLOB: u16 = 16;
    /// UNSIGNED.
    pub const UNSIGNED: u16 = 32;
    /// ZEROFILL.
    pub const ZEROFILL: u16 = 64;
    /// Binary collation.
    pub const BINARY: u16 = 128;
    /// ENUM.
    pub const ENUM: u16 = 256;
    /// AUTO_INCREMENT.
    pub const AUTO_INCREMENT: u16 = 512;
    /// TIMESTAMP.
    pub const TIMESTAMP: u16 = 1024;
    /// SET.
    pub const SET: u16 = 2048;
    /// NOT NULL without a default.
    pub const NO_DEFAULT_VALUE: u16 = 4096;
    /// ON UPDATE NOW().
    pub const ON_UPDATE_NOW: u16 = 8192;
    /// Part of some key.
    pub const PART_KEY: u16 = 16384;
}
