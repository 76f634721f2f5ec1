#!/usr/bin/env python3
"""TPC-H-like data as INSERT statements, the same for the same scale.

    bench/tpch/generate.py --scale 0.01 > data.sql

Tables, sizes, keys and value ranges are those of the TPC-H specification (4.2.3); texts are made of
fewer words, and random numbers are this program's own, so results differ from published answers.
"""
import argparse, datetime, random, sys

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0),
           ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4),
           ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1),
           ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3),
           ("UNITED KINGDOM", 3), ("UNITED STATES", 1)]
COLOURS = ("almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood "
           "chartreuse chiffon chocolate coral cornflower cream cyan dark deep dim dodger drab firebrick "
           "floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki "
           "lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty "
           "moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple "
           "red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan "
           "thistle tomato turquoise violet wheat white yellow").split()
TYPES = [f"{a} {b} {c}" for a in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
         for b in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
         for c in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")]
CONTAINERS = [f"{a} {b}" for a in ("SM", "LG", "MED", "JUMBO", "WRAP")
              for b in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = ("furiously quickly carefully slyly blithely even final ironic pending regular express special "
         "requests deposits accounts packages foxes ideas theodolites pinto beans instructions sleep wake "
         "haggle nag use boost affix detect among above across").split()
FIRST_DAY, LAST_ORDER, TODAY = (datetime.date(1992, 1, 1), datetime.date(1998, 8, 2),
                                datetime.date(1995, 6, 17))
ROWS_PER_INSERT = 1000


def text(rng, most):
    out = " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))
    return out[:most].strip()


def phone(rng, nation):
    return f"{nation + 10}-{rng.randint(100, 999)}-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"


def retail_cents(part):
    return 90000 + part // 10 % 20001 + 100 * (part % 1000)


def money(cents):
    return f"{cents // 100}.{cents % 100:02d}" if cents >= 0 else "-" + money(-cents)


def suppliers_of(part, nth, suppliers):
    return (part + nth * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


class Out:
    """Rows of one table, many to a statement."""

    def __init__(self, table):
        self.table, self.rows = table, []

    def add(self, *values):
        self.rows.append("(" + ",".join(str(v) if isinstance(v, int) else f"'{v}'" for v in values) + ")")
        if len(self.rows) == ROWS_PER_INSERT:
            self.flush()

    def flush(self):
        if self.rows:
            sys.stdout.write(f"INSERT INTO {self.table} VALUES {','.join(self.rows)};\n")
            self.rows.clear()


def small_tables(rng, parts, suppliers, customers):
    region, nation = Out("region"), Out("nation")
    for key, name in enumerate(REGIONS):
        region.add(key, name, text(rng, 152))
    for key, (name, of) in enumerate(NATIONS):
        nation.add(key, name, of, text(rng, 152))
    part, partsupp = Out("part"), Out("partsupp")
    for key in range(1, parts + 1):
        maker = rng.randint(1, 5)
        part.add(key, " ".join(rng.sample(COLOURS, 5)), f"Manufacturer#{maker}",
                 f"Brand#{maker}{rng.randint(1, 5)}", rng.choice(TYPES), rng.randint(1, 50),
                 rng.choice(CONTAINERS), money(retail_cents(key)), text(rng, 23))
        for nth in range(4):
            partsupp.add(key, suppliers_of(key, nth, suppliers), rng.randint(1, 9999),
                         money(rng.randint(100, 100000)), text(rng, 199))
    supplier = Out("supplier")
    for key in range(1, suppliers + 1):
        of = rng.randrange(25)
        comment = text(rng, 60)
        if rng.random() < 0.005:
            comment += rng.choice([" Customer some Complaints", " Customer Recommends"])
        supplier.add(key, f"Supplier#{key:09d}", text(rng, 40), of, phone(rng, of),
                     money(rng.randint(-99999, 999999)), comment)
    customer = Out("customer")
    for key in range(1, customers + 1):
        of = rng.randrange(25)
        customer.add(key, f"Customer#{key:09d}", text(rng, 40), of, phone(rng, of),
                     money(rng.randint(-99999, 999999)), rng.choice(SEGMENTS), text(rng, 117))
    for table in (region, nation, part, partsupp, supplier, customer):
        table.flush()


def orders(rng, count, parts, suppliers, customers):
    order, line = Out("orders"), Out("lineitem")
    days = (LAST_ORDER - FIRST_DAY).days
    for nth in range(count):
        key = nth // 8 * 32 + nth % 8 + 1
        date = FIRST_DAY + datetime.timedelta(rng.randint(0, days))
        customer = rng.randint(1, customers)
        while customer % 3 == 0:
            customer = rng.randint(1, customers)
        total, states = 0, set()
        for number in range(1, rng.randint(1, 7) + 1):
            part = rng.randint(1, parts)
            quantity, discount, tax = rng.randint(1, 50), rng.randint(0, 10), rng.randint(0, 8)
            price = quantity * retail_cents(part)
            shipped = date + datetime.timedelta(rng.randint(1, 121))
            committed = date + datetime.timedelta(rng.randint(30, 90))
            received = shipped + datetime.timedelta(rng.randint(1, 30))
            flag = rng.choice("RA") if received <= TODAY else "N"
            state = "O" if shipped > TODAY else "F"
            states.add(state)
            total += price * (100 - discount) * (100 + tax) // 10000
            line.add(key, part, suppliers_of(part, rng.randrange(4), suppliers), number, quantity,
                     money(price), money(discount), money(tax), flag, state, shipped, committed,
                     received, rng.choice(INSTRUCTIONS), rng.choice(MODES), text(rng, 44))
        order.add(key, customer, states.pop() if len(states) == 1 else "P", money(total), date,
                  rng.choice(PRIORITIES), f"Clerk#{rng.randint(1, max(count // 1500, 1)):09d}", 0,
                  text(rng, 79))
    order.flush()
    line.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.01)
    scale = parser.parse_args().scale
    parts, suppliers = max(int(200_000 * scale), 40), max(int(10_000 * scale), 80)
    # The rule by which a part gets its four suppliers gives four different ones only if there are enough of them and
    # their number is no multiple of three.
    suppliers += suppliers % 3 == 0
    customers, count = max(int(150_000 * scale), 30), max(int(1_500_000 * scale), 100)
    rng = random.Random(20)
    small_tables(rng, parts, suppliers, customers)
    orders(rng, count, parts, suppliers, customers)


if __name__ == "__main__":
    main()
