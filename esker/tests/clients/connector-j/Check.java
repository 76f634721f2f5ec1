// What programs do with Connector/J, and what they must see. Prints "fine" when all of it is right.
//
// Arguments: port, then accounts as user:password, all of whom may do everything.

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.*;
import java.sql.Date;
import java.time.*;
import java.util.*;

public class Check {
    static int port;
    static String[][] accounts;

    /** How a suite of checks connects: the same work must give the same answers every way. */
    static final String[] WAYS = {
        "sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=false",
        "sslMode=REQUIRED&useServerPrepStmts=true&cachePrepStmts=true",
        "sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=7",
        "sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=true&rewriteBatchedStatements=true",
        "sslMode=REQUIRED&useServerPrepStmts=false&rewriteBatchedStatements=true&useLocalSessionState=true"
            + "&elideSetAutoCommits=true&cacheServerConfiguration=true",
    };

    public static void main(String[] args) throws Exception {
        port = Integer.parseInt(args[0]);
        accounts = Arrays.stream(args).skip(1).map(a -> a.split(":")).toArray(String[][]::new);
        logins();
        for (int way = 0; way < WAYS.length; way++) {
            String database = "java" + way;
            try (Connection c = connect("", WAYS[way]); Statement s = c.createStatement()) {
                same(1, s.executeUpdate("CREATE DATABASE " + database));
            }
            try (Connection c = connect(database, WAYS[way])) {
                types(c);
                transactions(c);
                keysAndBatches(c);
                errors(c);
                cursors(c);
                metadata(c, database);
                several(database, WAYS[way]);
                large(c);
                timeouts(c, database, WAYS[way]);
                session(c);
            } catch (Throwable e) {
                System.err.println("with " + WAYS[way]);
                throw e;
            }
        }
        System.out.println("fine");
    }

    static Connection connect(String database, String options) throws SQLException {
        return connect(accounts[0][0], accounts[0][1], database, options);
    }

    static Connection connect(String user, String password, String database, String options) throws SQLException {
        return DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + port + "/" + database + "?" + options, user, password);
    }

    static void same(Object expected, Object got) {
        if (!Objects.deepEquals(expected, got)) {
            throw new AssertionError("expected " + show(expected) + ", got " + show(got));
        }
    }

    static String show(Object o) {
        String text = o instanceof Object[] a ? Arrays.deepToString(a) : o instanceof byte[] b ? Arrays.toString(b) : String.valueOf(o);
        return text.length() > 4000 ? text.substring(0, 4000) + "..." : text;
    }

    interface Action { void run() throws SQLException; }

    /** Number and SQLSTATE of the error that an action ends in. */
    static SQLException fails(int code, String state, Action action) {
        try {
            action.run();
        } catch (SQLException e) {
            same(code + " " + state, e.getErrorCode() + " " + e.getSQLState());
            return e;
        }
        throw new AssertionError("no error " + code);
    }

    /** All rows, each as its values. */
    static List<List<Object>> rows(ResultSet r) throws SQLException {
        List<List<Object>> all = new ArrayList<>();
        int n = r.getMetaData().getColumnCount();
        while (r.next()) {
            List<Object> row = new ArrayList<>();
            for (int i = 1; i <= n; i++) row.add(r.getObject(i));
            all.add(row);
        }
        return all;
    }

    static Object value(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            List<List<Object>> rows = rows(r);
            same(1, rows.size());
            return rows.get(0).get(0);
        }
    }

    static void run(Connection c, String... statements) throws SQLException {
        try (Statement s = c.createStatement()) {
            for (String sql : statements) s.execute(sql);
        }
    }

    static void logins() throws SQLException {
        for (String[] account : accounts) {
            for (String options : List.of("sslMode=DISABLED&allowPublicKeyRetrieval=true", "sslMode=REQUIRED", "")) {
                try (Connection c = connect(account[0], account[1], "", options)) {
                    same(account[0] + "@localhost", value(c, "SELECT CURRENT_USER()"));
                    same(true, c.isValid(5));
                }
            }
            fails(1045, "28000", () -> connect(account[0], "wrong", "", "sslMode=REQUIRED"));
        }
        fails(1049, "42000", () -> connect("nowhere", "sslMode=REQUIRED"));
    }

    static final String[][] COLUMNS = {
        {"i8", "TINYINT"}, {"u8", "TINYINT UNSIGNED"}, {"i16", "SMALLINT"}, {"u16", "SMALLINT UNSIGNED"},
        {"i24", "MEDIUMINT"}, {"u24", "MEDIUMINT UNSIGNED"}, {"i32", "INT"}, {"u32", "INT UNSIGNED"},
        {"i64", "BIGINT"}, {"u64", "BIGINT UNSIGNED"}, {"n", "DECIMAL(65,30)"}, {"f", "FLOAT"}, {"d", "DOUBLE"},
        {"c", "CHAR(4)"}, {"v", "VARCHAR(20)"}, {"t", "TEXT"}, {"bi", "BINARY(4)"}, {"vb", "VARBINARY(20)"},
        {"b", "BLOB"}, {"da", "DATE"}, {"ti", "TIME"}, {"dt", "DATETIME(6)"}, {"ts", "TIMESTAMP(6) NULL"},
        {"b1", "BIT(1)"}, {"bt", "BIT(64)"}, {"e", "ENUM('a','\u00fc')"}, {"s", "SET('x','y','z')"},
    };

    static final String NINES = "9".repeat(35) + "." + "9".repeat(30);
    static final String SMILE = "\uD83D\uDE00";

    static final Object[] LOWEST = {
        -128, 0, -32768, 0, -8388608, 0, Integer.MIN_VALUE, 0L, Long.MIN_VALUE, BigInteger.ZERO,
        new BigDecimal("-" + NINES), -1.5f, -Double.MAX_VALUE, "", "", "", new byte[4], new byte[0], new byte[] {0},
        Date.valueOf("1000-01-01"), Time.valueOf("00:00:00"), LocalDateTime.parse("1000-01-01T00:00:00.000001"),
        Timestamp.valueOf("1970-01-02 00:00:01.000001"), false, new byte[8], "a", "",
    };
    static final Object[] HIGHEST = {
        127, 255, 32767, 65535, 8388607, 16777215, Integer.MAX_VALUE, 4294967295L, Long.MAX_VALUE,
        new BigInteger("18446744073709551615"), new BigDecimal(NINES), 0.015625f, Double.MIN_NORMAL,
        SMILE + "b\u00fcx", SMILE.repeat(20), "it's \\ \"\n\0\uDBFF\uDFFF", new byte[] {0, -1, 39, 92},
        new byte[] {-1, 0}, everyByte(), Date.valueOf("9999-12-31"), Time.valueOf("23:59:59"),
        LocalDateTime.parse("9999-12-31T23:59:59.999999"), Timestamp.valueOf("2037-12-31 23:59:59.999999"), true,
        new byte[] {-1, -1, -1, -1, -1, -1, -1, -1}, "\u00fc", "x,z",
    };

    static byte[] everyByte() {
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) all[i] = (byte) i;
        return all;
    }

    static void types(Connection c) throws SQLException {
        StringJoiner list = new StringJoiner(", "), names = new StringJoiner(", "), marks = new StringJoiner(", ");
        for (String[] column : COLUMNS) {
            list.add(column[0] + " " + column[1]);
            names.add(column[0]);
            marks.add("?");
        }
        run(c, "CREATE TABLE every_type (id INT PRIMARY KEY AUTO_INCREMENT, " + list + ")");
        Object[][] written = {LOWEST, HIGHEST, new Object[COLUMNS.length]};
        try (PreparedStatement p = c.prepareStatement("INSERT INTO every_type (" + names + ") VALUES (" + marks + ")")) {
            for (Object[] row : written) {
                for (int i = 0; i < row.length; i++) p.setObject(i + 1, row[i]);
                same(1, p.executeUpdate());
            }
        }
        String select = "SELECT " + names + " FROM every_type ORDER BY id";
        for (boolean prepared : new boolean[] {false, true}) {
            try (Statement s = c.createStatement(); PreparedStatement p = c.prepareStatement(select);
                 ResultSet r = prepared ? p.executeQuery() : s.executeQuery(select)) {
                List<List<Object>> got = rows(r);
                same(3, got.size());
                for (int row = 0; row < 3; row++) {
                    for (int i = 0; i < COLUMNS.length; i++) {
                        same(COLUMNS[i][0] + show(written[row][i]), COLUMNS[i][0] + show(got.get(row).get(i)));
                    }
                }
            }
        }
        try (PreparedStatement p = c.prepareStatement("SELECT dt, da, ti, ts FROM every_type WHERE dt = ? AND da = ?")) {
            p.setObject(1, LocalDateTime.parse("9999-12-31T23:59:59.999999"));
            p.setObject(2, LocalDate.parse("9999-12-31"));
            ResultSet r = p.executeQuery();
            same(true, r.next());
            same(LocalTime.parse("23:59:59"), r.getObject(3, LocalTime.class));
            same(LocalDate.parse("9999-12-31"), r.getObject(2, LocalDate.class));
            same(Instant.ofEpochMilli(r.getTimestamp(4).getTime()), r.getObject(4, OffsetDateTime.class).toInstant().truncatedTo(java.time.temporal.ChronoUnit.MILLIS));
            same(false, r.next());
        }
    }

    static String columns(ResultSetMetaData m) throws SQLException {
        StringJoiner all = new StringJoiner("\n");
        for (int i = 1; i <= m.getColumnCount(); i++) {
            all.add(m.getColumnName(i) + " " + m.getColumnTypeName(i) + " " + m.getColumnType(i) + " " + m.getPrecision(i)
                + " " + m.getScale(i) + " " + m.isSigned(i) + " " + m.isNullable(i) + " " + m.isAutoIncrement(i)
                + " " + m.getColumnClassName(i).replaceAll(".*\\.", ""));
        }
        return all.toString();
    }

    static void transactions(Connection c) throws SQLException {
        run(c, "CREATE TABLE tx (id INT PRIMARY KEY, n INT)", "INSERT INTO tx VALUES (1, 1)");
        c.setAutoCommit(false);
        run(c, "UPDATE tx SET n = 2");
        c.rollback();
        same(1, value(c, "SELECT n FROM tx"));
        run(c, "UPDATE tx SET n = 3");
        Savepoint point = c.setSavepoint("here");
        run(c, "UPDATE tx SET n = 4");
        c.rollback(point);
        c.releaseSavepoint(c.setSavepoint());
        c.commit();
        same(3, value(c, "SELECT n FROM tx"));
        c.commit();
        c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        same(Connection.TRANSACTION_READ_COMMITTED, c.getTransactionIsolation());
        c.setReadOnly(true);
        fails(0, "S1009", () -> run(c, "UPDATE tx SET n = 5"));
        c.rollback();
        c.setReadOnly(false);
        c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        c.setAutoCommit(true);
        try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE);
             ResultSet r = s.executeQuery("SELECT id, n FROM tx")) {
            same(true, r.next());
            r.updateInt("n", 6);
            r.updateRow();
            r.moveToInsertRow();
            r.updateInt("id", 2);
            r.updateInt("n", 7);
            r.insertRow();
        }
        same(List.of(List.of(1, 6), List.of(2, 7)), all(c, "SELECT * FROM tx ORDER BY id"));
    }

    static List<List<Object>> all(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            return rows(r);
        }
    }

    static List<Long> keys(Statement s) throws SQLException {
        List<Long> keys = new ArrayList<>();
        try (ResultSet r = s.getGeneratedKeys()) {
            while (r.next()) keys.add(r.getLong(1));
        }
        return keys;
    }

    static void keysAndBatches(Connection c) throws SQLException {
        run(c, "CREATE TABLE ids (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20), n INT, UNIQUE KEY (s))");
        try (Statement s = c.createStatement()) {
            same(3, s.executeUpdate("INSERT INTO ids (s) VALUES ('a'), ('b'), ('c')", Statement.RETURN_GENERATED_KEYS));
            same(List.of(1L, 2L, 3L), keys(s));
            same(List.of(List.of(BigInteger.ONE)), all(c, "SELECT LAST_INSERT_ID()"));
        }
        String insert = "INSERT INTO ids (s, n) VALUES (?, ?)";
        try (PreparedStatement p = c.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            for (int i = 0; i < 500; i++) {
                p.setString(1, "k" + i);
                p.setInt(2, i);
                p.addBatch();
            }
            int[] counts = p.executeBatch();
            same(500, counts.length);
            same(true, Arrays.stream(counts).allMatch(n -> n == 1 || n == Statement.SUCCESS_NO_INFO));
            List<Long> keys = keys(p);
            same(500, keys.size());
            same(499L, keys.get(499) - keys.get(0));
            p.setString(1, "k7");
            p.setInt(2, 0);
            p.addBatch();
            try {
                p.executeBatch();
                throw new AssertionError("duplicate in a batch");
            } catch (BatchUpdateException e) {
                same("1062 23000", e.getErrorCode() + " " + e.getSQLState());
            }
        }
        try (PreparedStatement p = c.prepareStatement("UPDATE ids SET n = n + ? WHERE s = ?")) {
            for (int i = 0; i < 20; i++) {
                p.setInt(1, 1000);
                p.setString(2, "k" + i);
                p.addBatch();
            }
            same(20, p.executeBatch().length);
        }
        same(20L, value(c, "SELECT COUNT(*) FROM ids WHERE n >= 1000"));
        try (Statement s = c.createStatement()) {
            s.addBatch("DELETE FROM ids WHERE n < 400");
            s.addBatch("UPDATE ids SET n = 0");
            same(new int[] {380, 123}, s.executeBatch());
        }
    }

    static void errors(Connection c) throws SQLException {
        run(c, "CREATE TABLE er (id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3))", "INSERT INTO er VALUES (1, 1, 'x')");
        fails(1064, "42000", () -> run(c, "SELEC 1"));
        fails(1146, "42S02", () -> run(c, "SELECT * FROM nope"));
        fails(1054, "42S22", () -> run(c, "SELECT nope FROM er"));
        SQLException twice = fails(1062, "23000", () -> run(c, "INSERT INTO er VALUES (1, 1, 'x')"));
        same(true, twice instanceof SQLIntegrityConstraintViolationException);
        same("Duplicate entry '1' for key 'er.PRIMARY'", twice.getMessage());
        fails(1048, "23000", () -> run(c, "INSERT INTO er VALUES (2, NULL, 'x')"));
        // The driver has its own numbers for these two.
        same(true, fails(1264, "22001", () -> run(c, "INSERT INTO er VALUES (2, 300, 'x')")) instanceof DataTruncation);
        same(true, fails(1406, "22001", () -> run(c, "INSERT INTO er VALUES (2, 1, 'long')")) instanceof DataTruncation);
        for (String sql : List.of("SELECT * FROM nope WHERE id = ?", "INSERT INTO nope VALUES (?)")) {
            fails(1146, "42S02", () -> {
                try (PreparedStatement p = c.prepareStatement(sql)) {
                    p.setInt(1, 1);
                    p.execute();
                }
            });
        }
        try (Statement s = c.createStatement()) {
            same(1, s.executeUpdate("INSERT IGNORE INTO er VALUES (1, 1, 'x'), (2, 2, 'long')"));
            List<Integer> codes = new ArrayList<>();
            for (SQLWarning w = s.getWarnings(); w != null; w = w.getNextWarning()) codes.add(w.getErrorCode());
            same(List.of(1062, 1265), codes);
        }
    }

    static void cursors(Connection c) throws SQLException {
        run(c, "CREATE TABLE many (id INT PRIMARY KEY, s VARCHAR(60))");
        try (PreparedStatement p = c.prepareStatement("INSERT INTO many VALUES (?, ?)")) {
            c.setAutoCommit(false);
            for (int i = 0; i < 1000; i++) {
                p.setInt(1, i);
                p.setString(2, "row " + i);
                p.addBatch();
            }
            p.executeBatch();
            c.commit();
            c.setAutoCommit(true);
        }
        for (int fetch : new int[] {0, 1, 64, 1000, Integer.MIN_VALUE}) {
            try (PreparedStatement p = c.prepareStatement("SELECT id, s FROM many WHERE id >= ? ORDER BY id",
                     ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                p.setFetchSize(fetch);
                p.setInt(1, 10);
                for (int round = 0; round < 2; round++) {
                    try (ResultSet r = p.executeQuery()) {
                        int expected = 10;
                        while (r.next()) {
                            same(expected, r.getInt(1));
                            same("row " + expected++, r.getString(2));
                        }
                        same(1000, expected);
                    }
                }
                // Left in the middle.
                try (ResultSet r = p.executeQuery()) {
                    same(true, r.next());
                }
                p.setMaxRows(3);
                try (ResultSet r = p.executeQuery()) {
                    same(3, rows(r).size());
                }
                // A statement kept by the driver keeps its limit.
                p.setMaxRows(0);
            }
        }
        same(1000L, value(c, "SELECT COUNT(*) FROM many"));
    }

    static List<String> named(ResultSet r, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        try (r) {
            while (r.next()) {
                StringJoiner row = new StringJoiner(" ");
                for (String column : columns) row.add(r.getString(column));
                all.add(row.toString());
            }
        }
        return all;
    }

    static void metadata(Connection c, String database) throws SQLException {
        run(c, "CREATE TABLE shown (a INT NOT NULL, b VARCHAR(10) DEFAULT 'x' COMMENT 'said', c DECIMAL(7,2) UNSIGNED, "
            + "d BIGINT NOT NULL AUTO_INCREMENT, e DATETIME(3), f TEXT, g TINYINT(1), PRIMARY KEY (d, a), "
            + "UNIQUE KEY u (b, c), KEY k (e))");
        DatabaseMetaData m = c.getMetaData();
        same("MySQL", m.getDatabaseProductName());
        same(true, m.getDatabaseMajorVersion() >= 8);
        same(List.of(database + " shown TABLE"),
            named(m.getTables(database, null, "sho%", null), "TABLE_CAT", "TABLE_NAME", "TABLE_TYPE"));
        same(List.of(
                "a 4 INT 10 null null NO NO 1", "b 12 VARCHAR 10 null x YES NO 2", "c 3 DECIMAL UNSIGNED 7 2 null YES NO 3",
                "d -5 BIGINT 19 null null NO YES 4", "e 93 DATETIME 23 null null YES NO 5", "f -1 TEXT 65535 null null YES NO 6",
                "g -7 BIT 1 null null YES NO 7"),
            named(m.getColumns(database, null, "shown", null), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
                "DECIMAL_DIGITS", "COLUMN_DEF", "IS_NULLABLE", "IS_AUTOINCREMENT", "ORDINAL_POSITION"));
        same(List.of("said"), named(m.getColumns(database, null, "shown", "b"), "REMARKS"));
        same(List.of("a 2 PRIMARY", "d 1 PRIMARY"),
            named(m.getPrimaryKeys(database, null, "shown"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        same(List.of("0 PRIMARY 1 d A", "0 PRIMARY 2 a A", "0 u 1 b A", "0 u 2 c A", "1 k 1 e A"),
            named(m.getIndexInfo(database, null, "shown", false, true), "NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION",
                "COLUMN_NAME", "ASC_OR_DESC"));
        same(List.of(), named(m.getImportedKeys(database, null, "shown"), "FK_NAME"));
        same(List.of(), named(m.getProcedures(database, null, "%"), "PROCEDURE_NAME"));
        same(true, named(m.getCatalogs(), "TABLE_CAT").contains(database));
        same(true, named(m.getTypeInfo(), "TYPE_NAME").contains("BIGINT"));
        same(List.of("TABLE"), named(m.getTableTypes(), "TABLE_TYPE").stream().filter("TABLE"::equals).toList());
        named(m.getColumnPrivileges(database, null, "shown", "%"), "GRANTEE");
        named(m.getTablePrivileges(database, null, "shown"), "GRANTEE");
        named(m.getBestRowIdentifier(database, null, "shown", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME");
        named(m.getVersionColumns(database, null, "shown"), "COLUMN_NAME");
        named(m.getExportedKeys(database, null, "shown"), "FK_NAME");
        named(m.getCrossReference(database, null, "shown", database, null, "ids"), "FK_NAME");
        named(m.getFunctions(database, null, "%"), "FUNCTION_NAME");
        named(m.getClientInfoProperties(), "NAME");
        m.getSQLKeywords();
        try (Statement s = c.createStatement()) {
            // What comes through a cursor has other types.
            s.setFetchSize(0);
            ResultSetMetaData shown = s.executeQuery("SELECT *, a + 1 AS more, 1 = 1 AS yes, NOW() AS now, 'x' AS x FROM shown AS t").getMetaData();
            same(SHOWN, columns(shown));
            same("shown", shown.getTableName(1));
            same(database, shown.getCatalogName(1));
        }
        try (PreparedStatement p = c.prepareStatement("SELECT b FROM shown WHERE a = ? AND b = ?")) {
            same(2, p.getParameterMetaData().getParameterCount());
            same("b", p.getMetaData().getColumnName(1));
        }
    }

    /** Name, type, its JDBC number, precision, scale, signed, nullable, AUTO_INCREMENT, class. */
    static final String SHOWN = """
        a INT 4 10 0 true 0 false Integer
        b VARCHAR 12 10 0 false 1 false String
        c DECIMAL UNSIGNED 3 7 2 false 1 false BigDecimal
        d BIGINT -5 19 0 true 0 true Long
        e DATETIME 93 23 0 false 1 false LocalDateTime
        f TEXT -1 16383 0 false 1 false String
        g BIT -7 1 0 false 1 false Boolean
        more BIGINT -5 19 0 true 0 false Long
        yes BIGINT -5 19 0 true 0 false Long
        now DATETIME 93 19 0 false 0 false LocalDateTime
        x VARCHAR 12 1 0 false 0 false String""";

    static void several(String database, String way) throws SQLException {
        try (Connection c = connect(database, way + "&allowMultiQueries=true"); Statement s = c.createStatement()) {
            same(false, s.execute("CREATE TABLE two (n INT); INSERT INTO two VALUES (1), (2); SELECT n FROM two; SELECT 'x'"));
            same(0, s.getUpdateCount());
            same(false, s.getMoreResults());
            same(2, s.getUpdateCount());
            same(true, s.getMoreResults());
            same(List.of(List.of(1), List.of(2)), rows(s.getResultSet()));
            same(true, s.getMoreResults());
            same(List.of(List.of("x")), rows(s.getResultSet()));
            same(false, s.getMoreResults());
            same(-1, s.getUpdateCount());
        }
        try (Connection c = connect(database, way)) {
            fails(1064, "42000", () -> run(c, "SELECT 1; SELECT 2"));
        }
    }

    static void large(Connection c) throws SQLException {
        byte[] data = new byte[17 << 20];
        Arrays.fill(data, (byte) 'z');
        run(c, "CREATE TABLE big (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT)");
        try (PreparedStatement p = c.prepareStatement("INSERT INTO big VALUES (?, ?, ?)")) {
            p.setInt(1, 1);
            p.setBytes(2, data);
            p.setString(3, SMILE);
            same(1, p.executeUpdate());
            p.setInt(1, 2);
            p.setBinaryStream(2, new java.io.ByteArrayInputStream(data, 0, 3 << 20));
            p.setCharacterStream(3, new java.io.StringReader("q".repeat(1 << 20)));
            same(1, p.executeUpdate());
        }
        try (PreparedStatement p = c.prepareStatement("SELECT b, t FROM big ORDER BY id"); ResultSet r = p.executeQuery()) {
            same(true, r.next());
            same(true, Arrays.equals(data, r.getBytes(1)));
            same(SMILE, r.getString(2));
            same(true, r.next());
            same(3 << 20, r.getBytes(1).length);
            same(1 << 20, r.getString(2).length());
        }
    }

    static void timeouts(Connection c, String database, String way) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            try {
                s.executeQuery("SELECT COUNT(*) FROM many a, many b WHERE SLEEP(0.2) = 0");
                throw new AssertionError("no time-out");
            } catch (SQLException e) {
                // With cursors the driver passes the server's error on.
                same(true, e instanceof SQLTimeoutException || e.getErrorCode() == 1317);
            }
        }
        run(c, "SET SESSION innodb_lock_wait_timeout = 1");
        try (Connection other = connect(database, way)) {
            other.setAutoCommit(false);
            run(other, "UPDATE tx SET n = 0 WHERE id = 1");
            fails(1205, "40001", () -> run(c, "UPDATE tx SET n = 1 WHERE id = 1"));
            other.rollback();
            // Of a deadlock nobody waits so long.
            run(c, "SET SESSION innodb_lock_wait_timeout = DEFAULT");
            c.setAutoCommit(false);
            run(c, "UPDATE tx SET n = 1 WHERE id = 1");
            run(other, "UPDATE tx SET n = 2 WHERE id = 2");
            Thread waits = new Thread(() -> {
                try {
                    run(c, "UPDATE tx SET n = 1 WHERE id = 2");
                } catch (SQLException e) {
                    same(1213, e.getErrorCode());
                }
            });
            waits.start();
            try {
                run(other, "UPDATE tx SET n = 2 WHERE id = 1");
                other.commit();
            } catch (SQLException e) {
                same("1213 40001", e.getErrorCode() + " " + e.getSQLState());
            }
            waits.join();
            c.rollback();
            c.setAutoCommit(true);
            // Of another's session, which ends.
            run(c, "KILL " + value(other, "SELECT CONNECTION_ID()"));
            try {
                run(other, "SELECT 1");
                throw new AssertionError("a killed session answered");
            } catch (SQLException e) {
                // The statement may arrive just before the connection ends.
                same(true, List.of("08S01", "70100").contains(e.getSQLState()));
                // Closing rolls back, unless the driver knows that the connection is gone.
                other.abort(Runnable::run);
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static void session(Connection c) throws SQLException {
        String before = c.getCatalog();
        run(c, "SET @mine = 1", "SET SESSION sql_mode = ''");
        ((com.mysql.cj.jdbc.JdbcConnection) c).resetServerState();
        same(Arrays.asList((Object) null), all(c, "SELECT @mine").get(0));
        same(false, value(c, "SELECT @@sql_mode").equals(""));
        same(before, value(c, "SELECT DATABASE()"));
        for (String[] account : accounts) {
            ((com.mysql.cj.jdbc.JdbcConnection) c).changeUser(account[0], account[1]);
            same(account[0] + "@localhost", value(c, "SELECT CURRENT_USER()"));
        }
        c.setCatalog("information_schema");
        same("information_schema", value(c, "SELECT DATABASE()"));
    }
}
