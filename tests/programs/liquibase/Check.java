// Liquibase: change sets of every kind, rollback, tags, snapshot, comparison of two schemas, generated change log.
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.logging.*;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.Scope;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.DiffGeneratorFactory;
import liquibase.diff.compare.CompareControl;
import liquibase.diff.output.DiffOutputControl;
import liquibase.diff.output.changelog.DiffToChangeLog;
import liquibase.resource.DirectoryResourceAccessor;
import liquibase.snapshot.*;

class Check {
    static final String URL = "jdbc:mysql://127.0.0.1:" + System.getenv("DB_PORT") + "/" + System.getenv("DB_NAME")
        + "?allowPublicKeyRetrieval=true&sslMode=DISABLED";

    interface Work { Object run() throws Exception; }

    static void step(String name, Work work) {
        String got;
        try { got = String.valueOf(work.run()); }
        catch (Throwable e) { got = e.getClass().getSimpleName() + " " + e.getMessage(); }
        System.out.println(name + ": " + got);
    }

    static final String LOG = """
        <databaseChangeLog xmlns="http://www.liquibase.org/xml/ns/dbchangelog" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
            xsi:schemaLocation="http://www.liquibase.org/xml/ns/dbchangelog http://www.liquibase.org/xml/ns/dbchangelog/dbchangelog-latest.xsd">
          <changeSet id="1" author="a">
            <createTable tableName="person" remarks="it's people">
              <column name="id" type="bigint" autoIncrement="true"><constraints primaryKey="true"/></column>
              <column name="name" type="varchar(50)" defaultValue="x" remarks="name"><constraints nullable="false" unique="true" uniqueConstraintName="u_name"/></column>
              <column name="ok" type="boolean" defaultValueBoolean="true"/>
              <column name="made" type="timestamp" defaultValueComputed="CURRENT_TIMESTAMP"/>
              <column name="price" type="decimal(10,2)" defaultValueNumeric="1.5"/>
              <column name="key" type="uuid"/><column name="data" type="blob"/><column name="text" type="clob"/>
              <column name="day" type="date"/><column name="at" type="time"/><column name="stamp" type="datetime(3)"/>
            </createTable>
            <createTable tableName="pet"><column name="id" type="int"><constraints primaryKey="true" primaryKeyName="pk_pet"/></column>
              <column name="owner" type="bigint"><constraints foreignKeyName="fk_owner" references="person(id)" deleteCascade="true"/></column></createTable>
          </changeSet>
          <changeSet id="2" author="a">
            <addColumn tableName="pet"><column name="kind" type="varchar(10)" afterColumn="id"/><column name="weight" type="double"/></addColumn>
            <createIndex tableName="pet" indexName="i_kind"><column name="kind"/><column name="weight" descending="true"/></createIndex>
            <insert tableName="person"><column name="id" valueNumeric="1"/><column name="name" value="Ada"/><column name="made" valueDate="2020-01-01T00:00:00"/></insert>
            <insert tableName="pet"><column name="id" valueNumeric="1"/><column name="owner" valueNumeric="1"/><column name="kind" value="cat"/></insert>
          </changeSet>
          <changeSet id="3" author="a">
            <renameColumn tableName="pet" oldColumnName="weight" newColumnName="kilos" columnDataType="double"/>
            <modifyDataType tableName="pet" columnName="kind" newDataType="varchar(20)"/>
            <addNotNullConstraint tableName="pet" columnName="kind" columnDataType="varchar(20)" defaultNullValue="cat"/>
            <addDefaultValue tableName="pet" columnName="kilos" defaultValueNumeric="2"/>
            <addUniqueConstraint tableName="pet" columnNames="owner, kind" constraintName="u_pet"/>
            <createView viewName="owners" replaceIfExists="true">SELECT name FROM person</createView>
            <setTableRemarks tableName="pet" remarks="pets"/>
          </changeSet>
          <changeSet id="4" author="a"><tagDatabase tag="one"/></changeSet>
          <changeSet id="5" author="a">
            <preConditions onFail="MARK_RAN"><not><columnExists tableName="pet" columnName="extra"/></not><indexExists indexName="i_kind"/>
              <foreignKeyConstraintExists foreignKeyName="fk_owner"/><primaryKeyExists tableName="pet"/><viewExists viewName="owners"/>
              <sqlCheck expectedResult="1">SELECT COUNT(*) FROM pet</sqlCheck></preConditions>
            <addColumn tableName="pet"><column name="extra" type="int" valueNumeric="7"/></addColumn>
            <addLookupTable existingTableName="pet" existingColumnName="kind" newTableName="kinds" newColumnName="kind" newColumnDataType="varchar(20)" constraintName="fk_kind"/>
          </changeSet>
          <changeSet id="6" author="a">
            <update tableName="pet"><column name="kilos" valueComputed="kilos + 1"/><where>id = 1</where></update>
            <dropUniqueConstraint tableName="person" constraintName="u_name"/>
            <renameTable oldTableName="pet" newTableName="animal"/>
            <rollback><renameTable oldTableName="animal" newTableName="pet"/><addUniqueConstraint tableName="person" columnNames="name" constraintName="u_name"/></rollback>
          </changeSet>
          <changeSet id="7" author="a" runOnChange="true"><sql splitStatements="true" endDelimiter=";">INSERT INTO person (name, made) VALUES ('a;b', '2020-01-01'); UPDATE person SET price = 3 WHERE id = 1</sql><rollback>DELETE FROM person WHERE name = 'a;b'</rollback></changeSet>
        </databaseChangeLog>
        """;

    static Liquibase liquibase(String file, Path folder) throws Exception {
        Connection c = DriverManager.getConnection(URL, "root", "");
        Database db = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(c));
        return new Liquibase(file, new DirectoryResourceAccessor(folder), db);
    }

    static Object ran() throws Exception {
        try (var c = DriverManager.getConnection(URL, "root", ""); var r = c.createStatement().executeQuery("SELECT ID, EXECTYPE, MD5SUM, TAG FROM DATABASECHANGELOG ORDER BY ORDEREXECUTED")) {
            var out = new ArrayList<String>();
            while (r.next()) out.add(r.getString(1) + " " + r.getString(2) + " " + r.getString(3) + " " + r.getString(4));
            return out;
        }
    }

    public static void main(String[] args) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        System.setProperty("liquibase.analytics.enabled", "false");
        System.setProperty("liquibase.showBanner", "false");
        Path folder = Files.createTempDirectory("liquibase");
        Files.writeString(folder.resolve("log.xml"), LOG);
        Files.writeString(folder.resolve("bad.xml"), LOG.replaceAll("(?s)<changeSet.*</changeSet>",
            "<changeSet id=\"b\" author=\"a\"><insert tableName=\"animal\"><column name=\"id\" valueNumeric=\"5\"/><column name=\"kind\" value=\"cat\"/><column name=\"owner\" valueNumeric=\"99\"/></insert></changeSet>"));
        var out = System.out;
        var hidden = java.io.OutputStream.nullOutputStream();
        Scope.child(Map.of(Scope.Attr.ui.name(), new liquibase.ui.LoggerUIService()), () -> {
            step("update", () -> { try (var l = liquibase("log.xml", folder)) { l.update(""); return ran(); } });
            step("update again", () -> { try (var l = liquibase("log.xml", folder)) { l.update(""); return l.listUnrunChangeSets(new Contexts(), new LabelExpression()).size(); } });
            step("validate", () -> { try (var l = liquibase("log.xml", folder)) { l.validate(); return "valid"; } });
            step("failing change", () -> { try (var l = liquibase("bad.xml", folder)) { l.update(""); return 0; } });
            step("generated", () -> { try (var l = liquibase("log.xml", folder)) { return generated(l.getDatabase()); } });
            step("rollback to tag", () -> { try (var l = liquibase("log.xml", folder)) { l.rollback("one", ""); return ran(); } });
            step("update after rollback", () -> { try (var l = liquibase("log.xml", folder)) { l.update(""); return ran(); } });
            step("drop all", () -> { try (var l = liquibase("log.xml", folder)) { l.dropAll(); return "dropped"; } });
            step("update from nothing", () -> { try (var l = liquibase("log.xml", folder)) { l.update(""); return ran(); } });
        });
        try (var c = DriverManager.getConnection(URL, "root", ""); var s = c.createStatement()) {
            s.executeUpdate("UPDATE DATABASECHANGELOG SET DATEEXECUTED = '2020-01-01', DEPLOYMENT_ID = '1'");
        }
    }

    static String generated(Database db) throws Exception {
        DatabaseSnapshot snapshot = SnapshotGeneratorFactory.getInstance().createSnapshot(db.getDefaultSchema(), db, new SnapshotControl(db));
        var diff = DiffGeneratorFactory.getInstance().compare(snapshot, new EmptyDatabaseSnapshot(db), CompareControl.STANDARD);
        var to = new DiffToChangeLog(diff, new DiffOutputControl(false, false, false, null));
        to.setIdRoot("1");
        var bytes = new java.io.ByteArrayOutputStream();
        to.print(new java.io.PrintStream(bytes));
        return bytes.toString().replaceAll("author=\"[^\"]*\"", "").replaceAll("\\s+", " ").replaceAll("<createView.*?</createView>", "<createView/>")
            .replaceAll("<changeSet[^>]*> <setColumnRemarks[^>]*columnParentType=\"VIEW\"[^>]*/> </changeSet> ", "");
    }
}
