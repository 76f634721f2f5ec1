"""Django: the migrations of its contrib applications, own models with every kind of field, changes of the schema,
queries, transactions, introspection, dump and load."""

import datetime
import decimal
import io
import json
import os
import sys
import tempfile
import traceback
import uuid
from pathlib import Path

import pymysql

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 7, "final", 0)

import django
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

settings.configure(
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.sites",
        "django.contrib.redirects", "django.contrib.flatpages", "django.contrib.messages", "django.contrib.admin",
        "shop",
    ],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.mysql", "HOST": "127.0.0.1", "PORT": os.environ["DB_PORT"],
        "NAME": os.environ["DB_NAME"], "USER": "root", "OPTIONS": {"charset": "utf8mb4"},
    }},
    MIGRATION_MODULES={"shop": "shop_migrations"},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache_table"}},
    USE_TZ=True, TIME_ZONE="UTC", SECRET_KEY="x", DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
)
folder = tempfile.TemporaryDirectory()
(Path(folder.name) / "shop_migrations").mkdir()
(Path(folder.name) / "shop_migrations" / "__init__.py").touch()
sys.path[:0] = [folder.name, str(Path(__file__).parent)]
django.setup()

from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.db import connection, models, transaction
from django.db.models import Avg, Case, Count, Exists, F, OuterRef, Prefetch, Q, Subquery, Sum, Value, When, Window
from django.db.models.functions import (
    Cast, Coalesce, Concat, ExtractWeek, ExtractYear, Greatest, JSONObject, Length, NullIf, Rank, Round, RowNumber, SHA256,
    StrIndex, TruncDate, TruncHour, TruncMonth, TruncWeek, Trim,
)
from shop.models import Category, Detail, Product, Tag, Tagging

Moment = datetime.datetime(2024, 2, 29, 13, 14, 15, 161718, tzinfo=datetime.timezone.utc)


def step(name, work):
    try:
        got = work()
    except Exception as e:
        got = f"{type(e).__name__} {e}"
        if os.environ.get("VERBOSE"):
            traceback.print_exc()
    print(f"{name}: {got}")


def command(*args, **kw):
    out = io.StringIO()
    call_command(*args, stdout=out, no_color=True, **kw)
    return out.getvalue().strip()


def fill():
    root = Category.objects.create(title="root")
    books = Category.objects.create(title="books", parent=root)
    music = Category.objects.create(title="music", parent=root)
    tags = Tag.objects.bulk_create([Tag(name=n, slug=n.lower()) for n in ("New", "Old", "Blue", "Grün", "日本")])
    tags = list(Tag.objects.order_by("id"))
    for i in range(12):
        p = Product.objects.create(
            key=uuid.UUID(int=i), title=f"Thing {i}", category=books if i % 2 else music, price=decimal.Decimal(i) * 3 / 2,
            data={"n": i, "list": [1, i, {"deep": "x" * i}], "name": f"näme {i}", "none": None, "yes": i % 3 == 0},
            blob=bytes([i, 0, 255]), weight=i / 7, on_sale=i % 3 == 0, released=datetime.date(2024, 1 + i % 12, 28),
            at=datetime.time(i, 30, 15, 250000), changed=Moment + datetime.timedelta(days=i * 17, hours=i), stock=i,
            took=datetime.timedelta(hours=i, microseconds=5), ip="10.0.0.%d" % i, text="it's \\ \"quoted\" \n " + "😀" * i,
        )
        for t in tags[:i % 4]:
            Tagging.objects.create(product=p, tag=t, weight=i)
        if i % 2:
            Detail.objects.create(product=p, note=None if i == 3 else f"Note{i}")
    return Product.objects.count(), Tagging.objects.count()


def rows(query):
    return list(query.values_list()) if not query.query.values_select and not query.query.annotations else list(query)


QUERIES = {
    "filter lookups": lambda: list(Product.objects.filter(title__icontains="thing 1", price__gt=1).order_by("id").values_list("id", "cents", "loud")),
    "startswith": lambda: Product.objects.filter(title__startswith="thing").count(),
    "istartswith": lambda: Product.objects.filter(title__istartswith="thing").count(),
    "regex": lambda: list(Product.objects.filter(title__regex=r"^Thing [0-3]$").order_by("id").values_list("id", flat=True)),
    "iregex": lambda: Product.objects.filter(title__iregex=r"^tHING 1\d?$").count(),
    "exact bytes": lambda: Product.objects.filter(blob=bytes([3, 0, 255])).count(),
    "uuid": lambda: Product.objects.get(key=uuid.UUID(int=5)).title,
    "duration": lambda: list(Product.objects.filter(took__gte=datetime.timedelta(hours=9)).order_by("id").values_list("took", flat=True)),
    "time": lambda: list(Product.objects.filter(at__lt=datetime.time(3)).order_by("id").values_list("at", flat=True)),
    "date parts": lambda: list(Product.objects.filter(changed__year=2024, changed__month__gte=3, changed__week_day=5).order_by("id").values_list("id", flat=True)),
    "iso year": lambda: Product.objects.filter(changed__iso_year=2024, released__quarter=2).count(),
    "date hour": lambda: list(Product.objects.filter(changed__date=datetime.date(2024, 3, 17), changed__hour=14).values_list("id", flat=True)),
    "trunc": lambda: list(Product.objects.annotate(m=TruncMonth("changed"), w=TruncWeek("changed"), d=TruncDate("changed"), h=TruncHour("changed")).order_by("id").values_list("m", "w", "d", "h")[:3]),
    "extract": lambda: list(Product.objects.annotate(y=ExtractYear("released"), w=ExtractWeek("released")).values("y", "w").annotate(n=Count("id")).order_by("y", "w")),
    "dates": lambda: list(Product.objects.dates("released", "month", order="DESC"))[:3],
    "datetimes": lambda: list(Product.objects.datetimes("changed", "hour"))[:2],
    "json key": lambda: list(Product.objects.filter(data__n__gt=8).order_by("id").values_list("data__name", "data__list__1", "data__list__2__deep")),
    "json contains": lambda: list(Product.objects.filter(data__contains={"yes": True}).order_by("id").values_list("id", flat=True)),
    "json contained by": lambda: Product.objects.filter(data__list__contained_by=[1, 2, 3, {"deep": "xxx"}]).count(),
    "json has key": lambda: (Product.objects.filter(data__has_key="none").count(), Product.objects.filter(data__has_any_keys=["a", "n"]).count(), Product.objects.filter(data__has_keys=["a", "n"]).count()),
    "json null": lambda: (Product.objects.filter(data__none=None).count(), Product.objects.filter(data__nope__isnull=True).count()),
    "json icontains": lambda: Product.objects.filter(data__name__icontains="NÄME 1").count(),
    "json in": lambda: list(Product.objects.filter(data__n__in=[3, 4, "x"]).order_by("id").values_list("id", flat=True)),
    "json exact": lambda: Product.objects.filter(data__list=[1, 3, {"deep": "xxx"}]).count(),
    "json object": lambda: list(Product.objects.annotate(o=JSONObject(t="title", p="price", s=F("stock") + 1)).order_by("id").values_list("o", flat=True)[:3]),
    "json order": lambda: list(Product.objects.order_by("data__yes", "-data__n").values_list("id", flat=True)),
    "aggregate": lambda: Product.objects.aggregate(n=Count("id"), a=Avg("price"), s=Sum("price", filter=Q(on_sale=True)), w=Avg("weight"), d=Avg("took")),
    "group": lambda: list(Category.objects.annotate(n=Count("product"), total=Coalesce(Sum("product__price"), Value(0, models.DecimalField()))).order_by("id").values_list("title", "n", "total")),
    "having": lambda: list(Tag.objects.annotate(n=Count("product", distinct=True)).filter(n__gt=2).order_by("-n").values_list("name", "n")),
    "window": lambda: list(Product.objects.annotate(r=Window(Rank(), partition_by="category", order_by=F("price").desc()), n=Window(RowNumber(), order_by="id")).order_by("id").values_list("id", "r", "n")),
    "window filter": lambda: list(Product.objects.annotate(r=Window(RowNumber(), partition_by="category", order_by="-price")).filter(r__lte=2).order_by("id").values_list("id", "r")),
    "subquery": lambda: list(Category.objects.annotate(best=Subquery(Product.objects.filter(category=OuterRef("pk")).order_by("-price").values("title")[:1])).order_by("id").values_list("title", "best")),
    "exists": lambda: list(Tag.objects.filter(Exists(Tagging.objects.filter(tag=OuterRef("pk"), weight__gt=9))).values_list("name", flat=True)),
    "case": lambda: list(Product.objects.annotate(c=Case(When(price__lt=5, then=Value("cheap")), When(price__lt=12, then=Value("fair")), default=Value("dear"))).values("c").annotate(n=Count("id")).order_by("c")),
    "functions": lambda: list(Product.objects.annotate(a=Concat("title", Value("-"), "stock", output_field=models.CharField()), c=SHA256("title"), d=StrIndex("title", Value("g")), e=Round("weight", precision=2), f=Greatest("stock", 5), g=NullIf("stock", 3), h=Cast("price", models.IntegerField()), i=Cast("stock", models.CharField(max_length=3)), j=Length("text")).order_by("id").values_list("a", "c", "d", "e", "f", "g", "h", "i", "j")[:5]),
    "union": lambda: list(Product.objects.filter(id__lt=3).values_list("title").union(Tag.objects.values_list("name")).order_by("title")),
    "intersection": lambda: list(Product.objects.filter(id__lt=6).values_list("id").intersection(Product.objects.filter(id__gt=3).values_list("id")).order_by("id")),
    "difference": lambda: list(Product.objects.filter(id__lt=6).values_list("id").difference(Product.objects.filter(id__gt=3).values_list("id")).order_by("id")),
    "prefetch": lambda: [(c.title, [p.title for p in c.product_set.all()]) for c in Category.objects.prefetch_related(Prefetch("product_set", Product.objects.filter(stock__gt=8).order_by("id"))).order_by("id")],
    "select related": lambda: [(d.note, d.product.category.parent.title) for d in Detail.objects.select_related("product__category__parent").order_by("pk")],
    "in bulk": lambda: sorted(Tag.objects.in_bulk(["New", "Blue"], field_name="name")),
    "distinct": lambda: list(Product.objects.values_list("category__title", flat=True).distinct().order_by("category__title")),
    "explain": lambda: bool(Product.objects.filter(id=1).explain()),
    "nulls": lambda: list(Detail.objects.order_by(F("note").asc(nulls_last=True)).values_list("note", flat=True)),
    "date arithmetic": lambda: list(Product.objects.annotate(x=F("changed") + datetime.timedelta(days=1, microseconds=7)).order_by("id").values_list("x", flat=True)[:2]),
    "date difference": lambda: list(Product.objects.annotate(x=F("changed") - Value(Moment), y=F("released") - Value(datetime.date(2024, 1, 1))).order_by("id").values_list("x", "y")[:3]),
    "bits": lambda: list(Product.objects.annotate(x=F("stock").bitand(5), y=F("stock").bitleftshift(2), z=F("stock") % 3, p=F("stock") ** 2).order_by("id").values_list("x", "y", "z", "p")[:6]),
    "select for update": lambda: locked(),
    "update": lambda: Product.objects.filter(stock__gt=5).update(price=F("price") + 1, title=Concat("title", Value("!"))),
    "update join": lambda: Product.objects.filter(category__title="books").update(on_sale=True),
    "update by subquery": lambda: Tagging.objects.update(weight=Subquery(Product.objects.filter(pk=OuterRef("product")).values("stock")[:1])),
    "update json": lambda: Product.objects.filter(id=2).update(data={"replaced": [1.5, "ü", None]}),
    "bulk update": lambda: Tag.objects.bulk_update([Tag(id=t.id, slug=t.slug + "x") for t in Tag.objects.all()], ["slug"]),
    "upsert": lambda: len(Tag.objects.bulk_create([Tag(name="New", slug="upserted"), Tag(name="Fresh", slug="f")], update_conflicts=True, update_fields=["slug"])),
    "insert ignore": lambda: len(Tag.objects.bulk_create([Tag(name="New", slug="no"), Tag(name="Ignored", slug="i")], ignore_conflicts=True)),
    "get or create": lambda: [Tag.objects.get_or_create(name=n, defaults={"slug": n})[1] for n in ("Old", "Newest")],
    "update or create": lambda: [Tag.objects.update_or_create(name=n, defaults={"slug": "uoc"})[1] for n in ("Old", "Latest")],
    "duplicate": lambda: Tag.objects.create(name="Old", slug="twice"),
    "check violated": lambda: Product.objects.filter(id=1).update(price=-1),
    "functional unique": lambda: Product.objects.filter(id=2).update(title="THING 0", stock=0),
    "null refused": lambda: Category.objects.filter(id=1).update(title=None),
    "too long": lambda: Tag.objects.create(name="n" * 41, slug="x"),
    "bad reference": lambda: Category.objects.filter(id=2).update(parent_id=999),
    "delete protected": lambda: Category.objects.all().delete(),
    "raw delete referenced": lambda: Category.objects.filter(id=2)._raw_delete("default"),
    "delete cascade": lambda: Product.objects.filter(id__in=[3, 4]).delete(),
    "delete by subquery": lambda: Tagging.objects.filter(tag__name__startswith="B").delete(),
    "iterator": lambda: sum(p.stock for p in Product.objects.iterator(chunk_size=3)),
    "raw": lambda: [p.title for p in Product.objects.raw("SELECT * FROM shop_product WHERE stock > %s ORDER BY id", [9])],
}


def locked():
    with transaction.atomic():
        return [list(Product.objects.select_for_update(**kw).filter(id__lte=2).order_by("id").values_list("id", flat=True))
                for kw in ({}, {"nowait": True}, {"skip_locked": True}, {"of": ("self",)})]


def savepoints():
    out = []
    try:
        with transaction.atomic():
            Tag.objects.create(name="outer", slug="o")
            try:
                with transaction.atomic():
                    Tag.objects.create(name="inner", slug="i")
                    raise ValueError
            except ValueError:
                out.append(Tag.objects.filter(name="inner").count())
            with transaction.atomic():
                Tag.objects.create(name="kept", slug="k")
        out.append(Tag.objects.filter(name__in=["outer", "kept"]).count())
        with transaction.atomic():
            Tag.objects.all().delete()
            raise KeyError
    except KeyError:
        out.append(Tag.objects.count() > 3)
    return out


def alter(work):
    def inner():
        with connection.schema_editor() as editor:
            work(editor)
        with connection.cursor() as cur:
            cur.execute("SHOW CREATE TABLE shop_product")
            return cur.fetchone()[1].replace("\n", " ")
    return inner


def field(model, name, new):
    new.set_attributes_from_name(name)
    new.model = model
    return new


def get(name):
    return Product._meta.get_field(name)


ALTERS = {
    "add field": lambda e: e.add_field(Product, field(Product, "extra", models.CharField(max_length=10, default="it's"))),
    "add field with database default": lambda e: e.add_field(Product, field(Product, "made", models.DateTimeField(db_default=models.functions.Now()))),
    "add generated": lambda e: e.add_field(Product, field(Product, "double", models.GeneratedField(expression=F("stock") * 2, output_field=models.IntegerField(), db_persist=True))),
    "remove generated": lambda e: e.remove_field(Product, field(Product, "double", models.IntegerField())),
    "widen": lambda e: e.alter_field(Product, get("title"), field(Product, "title", models.CharField(max_length=220, null=True))),
    "not null again": lambda e: e.alter_field(Product, field(Product, "title", models.CharField(max_length=220, null=True)), field(Product, "title", models.CharField(max_length=200, default="?"))),
    "rename": lambda e: e.alter_field(Product, get("text"), field(Product, "body", models.TextField())),
    "rename back": lambda e: e.alter_field(Product, field(Product, "body", models.TextField()), get("text")),
    "to text": lambda e: e.alter_field(Product, get("stock"), field(Product, "stock", models.CharField(max_length=9))),
    "to number": lambda e: e.alter_field(Product, field(Product, "stock", models.CharField(max_length=9)), get("stock")),
    "to nullable reference": lambda e: e.alter_field(Product, get("category"), field(Product, "category", models.ForeignKey(Category, null=True, on_delete=models.SET_NULL))),
    "add index": lambda e: e.add_index(Product, models.Index(fields=["released", "-at"], name="by_day")),
    "add expression index": lambda e: e.add_index(Product, models.Index(F("price") / F("stock"), name="by_ratio")),
    "rename index": lambda e: e.rename_index(Product, models.Index(fields=["released", "-at"], name="by_day"), models.Index(fields=["released", "-at"], name="by_date")),
    "remove index": lambda e: e.remove_index(Product, models.Index(fields=["released", "-at"], name="by_date")),
    "remove check": lambda e: e.remove_constraint(Product, Product._meta.constraints[0]),
    "add check": lambda e: e.add_constraint(Product, models.CheckConstraint(condition=Q(stock__lt=100) | Q(title__startswith="x"), name="few")),
    "remove unique": lambda e: e.remove_constraint(Product, Product._meta.constraints[1]),
    "remove functional unique": lambda e: e.remove_constraint(Product, Product._meta.constraints[2]),
    "alter unique together": lambda e: e.alter_unique_together(Tagging, [("product", "tag")], []),
    "comment": lambda e: e.alter_db_table_comment(Product, "", "pro'ducts"),
    "remove reference": lambda e: e.remove_field(Product, get("category")),
    "rename table": lambda e: (e.alter_db_table(Product, "shop_product", "shop_item"), e.alter_db_table(Product, "shop_item", "shop_product")),
    "delete model": lambda e: e.delete_model(Detail),
}


def introspect():
    out = []
    with connection.cursor() as cur:
        for table in sorted(connection.introspection.table_names(cur, include_views=True)):
            out.append(f"\n  {table}")
            for d in connection.introspection.get_table_description(cur, table):
                out.append(f"\n    {tuple(d)}")
            for name, c in sorted(connection.introspection.get_constraints(cur, table).items()):
                out.append(f"\n    {name} {sorted(c.items())}")
            out.append(f"\n    {sorted(connection.introspection.get_relations(cur, table).items())}")
            out.append(f"\n    {connection.introspection.get_sequences(cur, table)}")
            out.append(f"\n    {connection.introspection.get_storage_engine(cur, table)}")
    return "".join(out)


def users():
    u = User.objects.create_superuser("ada", "ada@example.com", "pw")
    g = Group.objects.create(name="staff")
    g.permissions.set(Permission.objects.filter(codename__startswith="view_").order_by("id"))
    u.groups.add(g)
    u.date_joined = u.last_login = Moment
    u.password = "!"
    u.save()
    return u.has_perm("auth.view_user"), g.permissions.count(), User.objects.filter(groups__permissions__codename="view_site").count(), str(ContentType.objects.get_for_model(Product))


def sessions():
    s = SessionStore(session_key="k" * 32)
    s["a"] = 1
    s.set_expiry(datetime.datetime(2099, 1, 2, tzinfo=datetime.timezone.utc))
    s.save(must_create=True)
    found = SessionStore(session_key="k" * 32)["a"]
    s.delete()
    return found


def cached():
    cache.set("a", {"x": 1}, 1000)
    out = [cache.get("a"), cache.add("a", 2), cache.incr("n") if cache.set("n", 5) is None else 0, cache.get_many(["a", "n"])]
    cache.delete("a")
    cache.clear()
    return out


def dump_and_load():
    dumped = command("dumpdata", "shop", "sites", "auth.group", indent=None, natural_foreign=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(dumped)
        f.flush()
        command("flush", interactive=False, verbosity=0)
        before = Product.objects.count()
        loaded = command("loaddata", f.name)
    return before, loaded, command("dumpdata", "shop", "sites", "auth.group", natural_foreign=True) == dumped


step("features", lambda: sorted((n, getattr(connection.features, n)) for n in dir(type(connection.features)) if n.startswith(("supports", "has", "can", "is_", "update_can", "indexes")) and not callable(getattr(connection.features, n)) and n != "has_zoneinfo_database"))
step("makemigrations", lambda: command("makemigrations", "shop", verbosity=1).replace(folder.name, ""))
step("sqlmigrate", lambda: command("sqlmigrate", "shop", "0001"))
step("migrate", lambda: command("migrate", verbosity=1))
step("cache table", lambda: command("createcachetable"))
step("showmigrations", lambda: command("showmigrations"))
step("fill", fill)
step("users", users)
step("sessions", sessions)
step("cache", cached)
for name, work in QUERIES.items():
    step(name, work)
step("savepoints", savepoints)
step("inspectdb", lambda: "\n" + command("inspectdb"))
step("introspect", introspect)
step("dump and load", dump_and_load)
step("sqlflush", lambda: command("sqlflush"))
for name, work in ALTERS.items():
    step(name, alter(work))
step("migrate back", lambda: command("migrate", "sites", "zero", verbosity=1))
step("migrate forth", lambda: command("migrate", "sites", verbosity=1))
step("optimizemigration", lambda: command("sqlsequencereset", "auth"))
