"""Models with every kind of field and relation that Django makes tables of."""

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Upper


class Tag(models.Model):
    name = models.CharField(max_length=40, unique=True)
    slug = models.SlugField(db_index=True)

    class Meta:
        ordering = ["name"]
        indexes = [models.Index(Lower("name"), name="tag_lower_name")]


class Category(models.Model):
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="children")
    title = models.CharField(max_length=100, db_comment="shown in menus")

    class Meta:
        db_table_comment = "a tree of categories"


class Product(models.Model):
    id = models.BigAutoField(primary_key=True)
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    title = models.CharField(max_length=200)
    category = models.ForeignKey(Category, on_delete=models.PROTECT)
    tags = models.ManyToManyField(Tag, through="Tagging")
    price = models.DecimalField(max_digits=10, decimal_places=2)
    cents = models.GeneratedField(expression=F("price") * 100, output_field=models.IntegerField(), db_persist=True)
    loud = models.GeneratedField(expression=Upper("title"), output_field=models.CharField(max_length=200),
                                 db_persist=False)
    data = models.JSONField(default=dict)
    blob = models.BinaryField(null=True)
    weight = models.FloatField(null=True)
    on_sale = models.BooleanField(default=False, db_default=False)
    released = models.DateField(null=True)
    at = models.TimeField(null=True)
    changed = models.DateTimeField(null=True)
    took = models.DurationField(null=True)
    stock = models.PositiveSmallIntegerField(default=0)
    ip = models.GenericIPAddressField(null=True)
    text = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["category", "title"], name="title_in_category"),
            models.UniqueConstraint(Lower("title"), "stock", name="lower_title_stock"),
        ]


class Tagging(models.Model):
    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    tag = models.ForeignKey(Tag, on_delete=models.CASCADE)
    weight = models.IntegerField(default=1)

    class Meta:
        unique_together = [("product", "tag")]


class Detail(models.Model):
    product = models.OneToOneField(Product, on_delete=models.CASCADE, primary_key=True)
    note = models.CharField(max_length=20, null=True, db_collation="utf8mb4_bin")
