// Hibernate: schema creation, update and validation, mappings of every kind, HQL, locks, batches.
import jakarta.persistence.*;
import java.math.*;
import java.time.*;
import java.util.*;
import java.util.function.*;
import jakarta.persistence.CascadeType;
import jakarta.persistence.Index;
import jakarta.persistence.OrderBy;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import org.hibernate.LockMode;
import org.hibernate.ScrollMode;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.Formula;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.annotations.OnDelete;
import org.hibernate.annotations.OnDeleteAction;
import org.hibernate.cfg.Configuration;

class Check {
    static final String URL = "jdbc:mysql://127.0.0.1:" + System.getenv("DB_PORT") + "/" + System.getenv("DB_NAME")
        + "?allowPublicKeyRetrieval=true&sslMode=DISABLED&connectionTimeZone=UTC";

    enum Kind { CAT, DOG }

    @Embeddable public static class Address { public String street; @Column(length = 10) public String zip; }

    @Entity(name = "Person") @Table(name = "person", uniqueConstraints = @UniqueConstraint(name = "u_mail", columnNames = "mail"),
        indexes = @Index(name = "i_name", columnList = "name, born desc"))
    public static class Person {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Long id;
        @Version public int version;
        @Column(nullable = false, length = 60) public String name;
        public String mail;
        public LocalDate born; public LocalTime at; public LocalDateTime stamp; public Instant moment; public Duration took;
        @Column(precision = 12, scale = 3) public BigDecimal money;
        public BigInteger big; public boolean ok; public Double ratio; public float f; public byte tiny; public short small; public char letter;
        public UUID uuid; @Lob public String text; @Lob public byte[] image; public byte[] bytes;
        @Enumerated(EnumType.STRING) public Kind kind; @Enumerated public Kind number;
        @JdbcTypeCode(org.hibernate.type.SqlTypes.JSON) public Map<String, Object> data;
        @Embedded public Address address;
        @ElementCollection @CollectionTable(name = "person_tags") public Set<String> tags = new TreeSet<>();
        @OneToMany(mappedBy = "owner", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("id") public List<Pet> pets = new ArrayList<>();
        @ManyToMany @JoinTable(name = "friends") public List<Person> friends = new ArrayList<>();
        @Formula("(select count(*) from pet p where p.owner_id = id)") public int count;
        @org.hibernate.annotations.Check(constraints = "age >= 0") public Integer age;
    }

    @Entity(name = "Pet") @Table(name = "pet") @Inheritance(strategy = InheritanceType.JOINED)
    public static class Pet {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) public Long id;
        public String name;
        @ManyToOne(optional = false) @OnDelete(action = OnDeleteAction.CASCADE) public Person owner;
    }

    @Entity(name = "Dog") @Table(name = "dog") public static class Dog extends Pet { public int bark; }

    interface Work { Object run(Session s) throws Exception; }

    static SessionFactory factory;

    static void step(String name, Work work) {
        Object got;
        try (Session s = factory.openSession()) {
            var t = s.beginTransaction();
            try { got = String.valueOf(work.run(s)); t.commit(); }
            catch (Throwable e) { if (t.isActive()) t.rollback(); throw e; }
        } catch (Throwable e) {
            Throwable c = e;
            while (c.getCause() != null && !(c instanceof java.sql.SQLException)) c = c.getCause();
            got = e.getClass().getSimpleName() + " " + (c instanceof java.sql.SQLException q ? q.getErrorCode() + " " + q.getSQLState() + " " : "") + c.getMessage();
        }
        System.out.println(name + ": " + got);
    }

    static SessionFactory open(String mode, Class<?>... classes) {
        var c = new Configuration().setProperty("hibernate.connection.url", URL).setProperty("hibernate.connection.username", "root").setProperty("hibernate.connection.password", "")
            .setProperty("hibernate.hbm2ddl.auto", mode).setProperty("hibernate.hbm2ddl.halt_on_error", "true").setProperty("hibernate.jdbc.batch_size", "20").setProperty("hibernate.connection.pool_size", "2")
            .setProperty("hibernate.jdbc.time_zone", "UTC").setProperty("hibernate.order_inserts", "true").setProperty("hibernate.globally_quoted_identifiers", "true").setProperty("hibernate.globally_quoted_identifiers_skip_column_definitions", "true");
        for (var k : classes) c.addAnnotatedClass(k);
        return c.buildSessionFactory();
    }

    static Object rows(List<?> rows) {
        var out = new ArrayList<String>();
        for (Object r : rows) out.add(r instanceof Object[] a ? Arrays.deepToString(a) : String.valueOf(r));
        return out;
    }

    static Person person(String name) {
        var p = new Person();
        p.name = name; p.mail = name + "@x"; p.born = LocalDate.of(2024, 2, 29); p.at = LocalTime.of(23, 59, 58); p.stamp = LocalDateTime.of(2024, 2, 29, 1, 2, 3, 456789000);
        p.moment = Instant.parse("2024-02-29T01:02:03.5Z"); p.took = Duration.ofSeconds(5, 7); p.money = new BigDecimal("12.345"); p.big = BigInteger.TEN; p.ok = true; p.ratio = 0.1; p.f = 1.5f; p.tiny = -5; p.small = 300; p.letter = 'x';
        p.uuid = new UUID(1, 2); p.text = "é".repeat(300); p.image = new byte[] {0, -1}; p.bytes = new byte[] {1, 2}; p.kind = Kind.DOG; p.number = Kind.DOG; p.data = new TreeMap<>(Map.of("a", List.of(1, "ü"), "b", 2)); p.age = 3;
        p.address = new Address(); p.address.street = "s"; p.address.zip = "z"; p.tags.addAll(List.of("p", "q"));
        return p;
    }

    public static void main(String[] args) {
        java.util.logging.Logger.getLogger("org.hibernate").setLevel(java.util.logging.Level.OFF);
        factory = open("create-only", Person.class, Pet.class, Dog.class);
        step("dialect", s -> s.getSessionFactory().unwrap(org.hibernate.engine.spi.SessionFactoryImplementor.class).getJdbcServices().getDialect().getClass().getSimpleName());
        step("persist", s -> {
            for (String n : List.of("Ada", "Bob", "Cid")) {
                var p = person(n);
                for (int i = 0; i < 3; i++) { var d = new Dog(); d.name = n + i; d.bark = i; d.owner = p; p.pets.add(d); }
                s.persist(p);
            }
            return 3;
        });
        step("load", s -> { var p = s.find(Person.class, 1L); return List.of(p.name, p.born, p.at, p.stamp, p.moment, p.took, p.money, p.big, p.ok, p.ratio, p.f, p.tiny, p.small, p.letter, p.uuid, p.text.length(), p.image.length, p.kind, p.number, p.data, p.address.zip, p.tags, p.pets.size(), p.count); });
        step("hql", s -> rows(s.createQuery("select p.name, count(d), max(d.bark) from Person p join p.pets d where d.name like :n group by p.name having count(d) > 1 order by p.name desc", Object[].class).setParameter("n", "%").list()));
        step("functions", s -> rows(s.createQuery("select upper(p.name), year(p.born), extract(month from p.stamp), p.born + 3 day, cast(p.money as integer), coalesce(p.mail, 'x'), locate('d', p.name), substring(p.name, 2), p.money * 2, mod(p.age, 2), str(p.age), length(p.text), trunc(p.money, 1), truncate(p.stamp, hour), round(p.ratio, 1), lpad(p.name, 5, '*'), format(p.stamp as 'yyyy-MM-dd') from Person p order by p.id", Object[].class).setMaxResults(2).list()));
        step("window", s -> rows(s.createQuery("select d.name, row_number() over (partition by d.owner.id order by d.bark desc), sum(d.bark) over (order by d.id) from Dog d order by d.id", Object[].class).setFirstResult(1).setMaxResults(3).list()));
        step("union", s -> rows(s.createQuery("select p.name from Person p union select d.name from Dog d where d.bark > 1 order by 1", String.class).list()));
        step("with", s -> rows(s.createQuery("with few as (select p.id as i, p.name as n from Person p where p.id < 3) select f.n from few f order by f.i", String.class).list()));
        step("recursive", s -> rows(s.createQuery("with t as (select 1 as n union all select n + 1 as n from t where n < 4) select x.n from t x order by x.n", Integer.class).list()));
        step("lateral", s -> rows(s.createQuery("select p.name, b.n from Person p join lateral (select max(d.bark) as n from Dog d where d.owner = p) b order by p.id", Object[].class).list()));
        step("exists", s -> rows(s.createQuery("select p.name from Person p where exists (select 1 from p.tags t where t = 'q') and p.pets is not empty and 'p' member of p.tags order by p.id", String.class).list()));
        step("listagg", s -> rows(s.createQuery("select listagg(d.name, ',') within group (order by d.name) from Dog d", String.class).list()));
        step("bulk update", s -> s.createMutationQuery("update Dog d set d.bark = d.bark + 1, d.name = concat(d.name, '!') where d.bark > 0").executeUpdate());
        step("bulk delete", s -> s.createMutationQuery("delete from Dog d where d.owner.name = 'Cid'").executeUpdate());
        step("bulk insert", s -> s.createMutationQuery("insert into Person (name, version, ok, f, tiny, small, letter) select p.name || '2', 0, false, 1, 1, 1, 'y' from Person p where p.id = 3").executeUpdate());
        step("upsert", s -> s.createMutationQuery("insert into Person (mail, name, version, ok, f, tiny, small, letter) values ('Bob@x', 'Bobby', 0, true, 1, 1, 1, 'z') on conflict do update set name = excluded.name").executeUpdate());
        step("version", s -> { var p = s.find(Person.class, 1L); p.age = 4; p.data.put("c", true); s.flush(); return p.version; });
        for (var mode : List.of(LockModeType.PESSIMISTIC_READ, LockModeType.PESSIMISTIC_WRITE, LockModeType.PESSIMISTIC_FORCE_INCREMENT))
            step(mode.name(), s -> s.find(Person.class, 1L, mode).version);
        step("skip locked", s -> s.createQuery("from Person p order by p.id", Person.class).setHibernateLockMode(LockMode.UPGRADE_SKIPLOCKED).setMaxResults(1).list().size());
        step("no wait", s -> s.createQuery("from Person p where p.id = 2", Person.class).setHibernateLockMode(LockMode.UPGRADE_NOWAIT).list().size());
        step("friends", s -> { var p = s.find(Person.class, 1L); p.friends.add(s.find(Person.class, 2L)); return p.friends.size(); });
        step("duplicate", s -> { var p = person("Ada"); s.persist(p); s.flush(); return 0; });
        step("check", s -> s.createNativeMutationQuery("update person set age = -1 where id = 1").executeUpdate());
        step("null", s -> s.createNativeMutationQuery("update person set name = null where id = 1").executeUpdate());
        step("no parent", s -> s.createNativeMutationQuery("insert into pet (id, owner_id) values (9999, 999)").executeUpdate());
        step("referenced", s -> s.createNativeMutationQuery("delete from person where id = 2").executeUpdate());
        step("orphan", s -> { var p = s.find(Person.class, 1L); p.pets.remove(0); s.flush(); return s.createQuery("select count(*) from Pet p", Long.class).getSingleResult(); });
        step("remove", s -> { s.remove(s.find(Person.class, 1L)); s.flush(); return s.createQuery("select count(*) from Pet p", Long.class).getSingleResult(); });
        step("scroll", s -> { int n = 0; try (var r = s.createQuery("from Person p order by p.id", Person.class).setFetchSize(Integer.MIN_VALUE).scroll(ScrollMode.FORWARD_ONLY)) { while (r.next()) n++; } return n; });
        step("read only", s -> { s.doWork(c -> c.setReadOnly(true)); try { return s.createNativeMutationQuery("delete from pet").executeUpdate(); } finally { s.doWork(c -> c.setReadOnly(false)); } });
        factory.close();
        factory = open("validate", Person.class, Pet.class, Dog.class);
        step("validated", s -> true);
        factory.close();
        factory = open("update", Person.class, Pet.class, Dog.class);
        step("updated", s -> true);
        factory.close();
    }
}
