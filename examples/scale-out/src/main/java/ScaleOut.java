import java.io.File;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.TreeSet;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;

/** What an application sees of several servers behind ShardingSphere-JDBC. The first argument is its configuration. */
public final class ScaleOut {
    private static final int ROWS = 200;

    public static void main(String[] arguments) throws Exception {
        DataSource source = YamlShardingSphereDataSourceFactory.createDataSource(new File(arguments[0]));
        try (Connection connection = source.getConnection()) {
            if (arguments[0].contains("sharding")) {
                shards(connection);
            } else {
                replicas(connection);
            }
        }
        System.out.println("ok");
        System.exit(0);
    }

    /** Writes go to the source; reads to the replicas, in turn; within a transaction that writes, to the source. */
    private static void replicas(Connection connection) throws Exception {
        run(connection, "CREATE TABLE IF NOT EXISTS item (id INT PRIMARY KEY, v INT)");
        run(connection, "TRUNCATE TABLE item");
        insert(connection, "INSERT INTO item (id, v) VALUES (?, ?)");
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (number(connection, "SELECT COUNT(*) FROM item") < ROWS
                || number(connection, "SELECT COUNT(*) FROM item") < ROWS) {
            check(System.nanoTime() < deadline, "the replicas do not catch up");
            Thread.sleep(20);
        }
        TreeSet<Long> readers = new TreeSet<>();
        for (int i = 0; i < 10; i++) {
            readers.add(number(connection, "SELECT @@server_id FROM item LIMIT 1"));
        }
        System.out.println("reads went to servers " + readers);
        check(readers.equals(new TreeSet<>(java.util.List.of(2L, 3L))), "both replicas read, and nobody else");
        connection.setAutoCommit(false);
        run(connection, "UPDATE item SET v = -1 WHERE id = 1");
        check(number(connection, "SELECT v FROM item WHERE id = 1") == -1, "a transaction reads what it has written");
        connection.rollback();
        connection.setAutoCommit(true);
    }

    /** Rows are spread by their key; queries of all of them come from both servers. */
    private static void shards(Connection connection) throws SQLException {
        run(connection, "DROP TABLE IF EXISTS orders");
        run(connection, "CREATE TABLE orders (id INT PRIMARY KEY, v INT)");
        insert(connection, "INSERT INTO orders (id, v) VALUES (?, ?)");
        check(number(connection, "SELECT COUNT(*) FROM orders") == ROWS, "all rows are there");
        check(number(connection, "SELECT SUM(v) FROM orders") == ROWS * (ROWS - 1) / 2, "sums cross the servers");
        check(number(connection, "SELECT v FROM orders WHERE id = 77") == 77, "a row is found by its key");
        check(number(connection, "SELECT id FROM orders ORDER BY id DESC LIMIT 1") == ROWS - 1, "orders are merged");
    }

    private static void insert(Connection connection, String sql) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(sql)) {
            for (int id = 0; id < ROWS; id++) {
                insert.setInt(1, id);
                insert.setInt(2, id);
                insert.executeUpdate();
            }
        }
    }

    private static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            return rows.next() ? rows.getLong(1) : 0;
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
