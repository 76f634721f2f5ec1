// XA through Connector/J's XADataSource, as a transaction manager uses it. Prints "fine" when all of it is right.
//
// Arguments: port, then accounts as user:password, the first of whom may do everything.

import com.mysql.cj.jdbc.MysqlXADataSource;
import java.sql.*;
import java.util.*;
import javax.sql.XAConnection;
import javax.transaction.xa.*;

public class Xa {
    static MysqlXADataSource source;

    record Id(int format, byte[] gtrid, byte[] bqual) implements Xid {
        public int getFormatId() { return format; }
        public byte[] getGlobalTransactionId() { return gtrid; }
        public byte[] getBranchQualifier() { return bqual; }
    }

    static Id id(int n) {
        // Bytes that are no text, zero among them, as transaction managers make them.
        return new Id(0x10000 + n, new byte[] {0, (byte) 0xff, (byte) n, '\''}, new byte[] {(byte) 0x80, 0, (byte) n});
    }

    public static void main(String[] args) throws Exception {
        String[] account = args[1].split(":");
        source = new MysqlXADataSource();
        source.setUrl("jdbc:mysql://127.0.0.1:" + args[0] + "/");
        source.setUser(account[0]);
        source.setPassword(account[1]);
        XAConnection connection = source.getXAConnection();
        XAResource resource = connection.getXAResource();
        try (Connection c = connection.getConnection(); Statement s = c.createStatement()) {
            s.execute("CREATE DATABASE xa");
            s.execute("CREATE TABLE xa.t (id INT PRIMARY KEY, v INT)");
            twoPhases(c, resource);
            onePhase(c, resource);
            resumed(c, resource);
            recovered(c, resource, connection);
            errors(c, resource);
        }
        connection.close();
        System.out.println("fine");
    }

    static void work(Connection c, XAResource r, Xid xid, int row) throws Exception {
        r.start(xid, XAResource.TMNOFLAGS);
        try (Statement s = c.createStatement()) {
            same(1, s.executeUpdate("INSERT INTO xa.t VALUES (" + row + ", 1)"));
        }
        r.end(xid, XAResource.TMSUCCESS);
    }

    static boolean has(Connection c, int row) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet rs = s.executeQuery("SELECT 1 FROM xa.t WHERE id = " + row)) {
            return rs.next();
        }
    }

    static void twoPhases(Connection c, XAResource r) throws Exception {
        work(c, r, id(1), 1);
        same(XAResource.XA_OK, r.prepare(id(1)));
        same(false, has(c, 1));
        r.commit(id(1), false);
        same(true, has(c, 1));
        work(c, r, id(1), 2);
        same(XAResource.XA_OK, r.prepare(id(1)));
        r.rollback(id(1));
        same(false, has(c, 2));
    }

    static void onePhase(Connection c, XAResource r) throws Exception {
        work(c, r, id(3), 3);
        r.commit(id(3), true);
        same(true, has(c, 3));
        work(c, r, id(4), 4);
        r.rollback(id(4));
        same(false, has(c, 4));
    }

    static void resumed(Connection c, XAResource r) throws Exception {
        work(c, r, id(5), 5);
        r.start(id(5), XAResource.TMRESUME);
        same(true, has(c, 5));
        r.end(id(5), XAResource.TMSUCCESS);
        r.rollback(id(5));
        same(false, has(c, 5));
    }

    /** What one connection has prepared is found and decided by another. */
    static void recovered(Connection c, XAResource r, XAConnection first) throws Exception {
        XAConnection other = source.getXAConnection();
        Connection oc = other.getConnection();
        for (int n = 6; n < 10; n++) {
            work(oc, other.getXAResource(), id(n), n);
            same(XAResource.XA_OK, other.getXAResource().prepare(id(n)));
        }
        other.close();
        Xid[] found = r.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
        same(4, found.length);
        Arrays.sort(found, Comparator.comparingInt(Xid::getFormatId));
        for (int n = 6; n < 10; n++) {
            Xid xid = found[n - 6];
            same(id(n).format, xid.getFormatId());
            same(id(n).gtrid, xid.getGlobalTransactionId());
            same(id(n).bqual, xid.getBranchQualifier());
            if (n % 2 == 0) {
                r.commit(xid, false);
            } else {
                r.rollback(xid);
            }
            same(n % 2 == 0, has(c, n));
        }
        same(0, r.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN).length);
    }

    interface Action { void run() throws Exception; }

    static int code(Action action) throws Exception {
        try {
            action.run();
        } catch (XAException e) {
            return e.errorCode;
        }
        return XAResource.XA_OK;
    }

    static void errors(Connection c, XAResource r) throws Exception {
        same(XAException.XAER_NOTA, code(() -> r.commit(id(20), false)));
        same(XAException.XAER_NOTA, code(() -> r.rollback(id(20))));
        same(XAException.XAER_RMFAIL, code(() -> r.end(id(20), XAResource.TMSUCCESS)));
        work(c, r, id(20), 20);
        same(XAException.XAER_RMFAIL, code(() -> r.start(id(21), XAResource.TMNOFLAGS)));
        same(XAException.XAER_RMFAIL, code(() -> r.commit(id(20), false)));
        XAConnection other = source.getXAConnection();
        same(XAException.XAER_DUPID, code(() -> other.getXAResource().start(id(20), XAResource.TMNOFLAGS)));
        other.close();
        r.rollback(id(20));
        c.setAutoCommit(false);
        same(true, has(c, 1));
        same(XAException.XAER_OUTSIDE, code(() -> r.start(id(21), XAResource.TMNOFLAGS)));
        c.rollback();
        c.setAutoCommit(true);
    }

    static void same(Object expected, Object got) {
        if (!Objects.deepEquals(expected, got)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }
}
