// Flyway: SQL migrations, a failing one, repair, repeatable migrations, validation, baseline, clean.
import java.nio.file.*;
import java.sql.*;
import org.flywaydb.core.Flyway;

class Check {
    static final String URL = "jdbc:mysql://127.0.0.1:" + System.getenv("DB_PORT") + "/" + System.getenv("DB_NAME")
        + "?allowPublicKeyRetrieval=true&sslMode=DISABLED";
    static Path folder;

    interface Work { Object run() throws Exception; }

    static void step(String name, Work work) {
        String got;
        try { got = String.valueOf(work.run()); }
        catch (Throwable e) { got = e.getClass().getSimpleName() + " " + e.getMessage(); }
        System.out.println(name + ": " + got.replace(folder.toString(), "FOLDER").replaceAll("(?m)^.*(flyway.io|red-gate|rd.gt).*$", ""));
    }

    static void file(String name, String sql) throws Exception { Files.writeString(folder.resolve(name), sql); }

    static Flyway flyway() {
        return Flyway.configure().dataSource(URL, "root", "").locations("filesystem:" + folder).cleanDisabled(false)
            .installedBy("check").load();
    }

    static Object info() {
        StringBuilder out = new StringBuilder();
        for (var m : flyway().info().all())
            out.append(m.getVersion()).append(' ').append(m.getDescription()).append(' ').append(m.getState()).append("; ");
        return out;
    }

    public static void main(String[] args) throws Exception {
        folder = Files.createTempDirectory("flyway");
        file("V1__tables.sql", """
            -- a comment with a ; in it
            CREATE TABLE person (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, UNIQUE KEY (name));
            CREATE TABLE pet (id INT PRIMARY KEY, owner BIGINT UNSIGNED, kind ENUM('cat','dog') DEFAULT 'cat',
              CONSTRAINT owned FOREIGN KEY (owner) REFERENCES person (id) ON DELETE CASCADE);
            /*!40101 SET @saved = @@sql_mode */;
            INSERT INTO person (name) VALUES ('Ada; with semicolon'), ('Bob''s');
            """);
        file("V2__change.sql", "ALTER TABLE pet ADD COLUMN born DATE, ADD INDEX by_born (born DESC);\n"
            + "INSERT INTO pet VALUES (1, 1, 'dog', '2020-02-29');\n");
        file("R__view.sql", "CREATE OR REPLACE VIEW owners AS SELECT p.name, COUNT(*) AS pets FROM person p JOIN pet ON owner = p.id GROUP BY p.name;\n");
        step("info before", Check::info);
        step("migrate", () -> flyway().migrate().migrationsExecuted);
        step("migrate again", () -> flyway().migrate().migrationsExecuted);
        step("info", Check::info);
        file("V3__broken.sql", "ALTER TABLE pet ADD COLUMN weight DOUBLE;\nINSERT INTO pet VALUES (2, 99, 'cat', NULL, 1.5);\n");
        step("broken", () -> flyway().migrate().migrationsExecuted);
        step("info after failure", Check::info);
        file("V3__broken.sql", "INSERT INTO pet VALUES (2, 2, 'cat', NULL, 1.5);\n");
        step("refused until repaired", () -> flyway().migrate().migrationsExecuted);
        step("repair", () -> flyway().repair().repairActions);
        step("migrate after repair", () -> flyway().migrate().migrationsExecuted);
        file("V1__tables.sql", "SELECT 1;\n");
        step("validate a changed file", () -> flyway().validateWithResult().invalidMigrations.size());
        step("repair checksums", () -> flyway().repair().migrationsAligned.size());
        file("R__view.sql", "CREATE OR REPLACE VIEW owners AS SELECT name FROM person;\n");
        step("repeat", () -> flyway().migrate().migrationsExecuted);
        file("V4__routine.sql", "UPDATE pet SET weight = weight * 2 WHERE kind = 'cat';\n");
        step("migrate more", () -> flyway().migrate().migrationsExecuted);
        step("clean", () -> flyway().clean().schemasCleaned.size());
        step("after clean", () -> {
            try (var c = DriverManager.getConnection(URL, "root", ""); var r = c.createStatement().executeQuery("SHOW TABLES")) {
                return r.next();
            }
        });
        file("V1__tables.sql", "CREATE TABLE person (id INT PRIMARY KEY);\nCREATE TABLE pet (id INT PRIMARY KEY, owner INT, kind VARCHAR(9), weight DOUBLE);\n");
        Files.delete(folder.resolve("V2__change.sql"));
        Files.delete(folder.resolve("V3__broken.sql"));
        step("from the beginning", () -> flyway().migrate().migrationsExecuted);
        step("fix times", () -> {
            try (var c = DriverManager.getConnection(URL, "root", ""); var s = c.createStatement()) {
                return s.executeUpdate("UPDATE flyway_schema_history SET installed_on = '2020-01-01', execution_time = 0");
            }
        });
    }
}
