# A dump of everything that a schema can have, restored, is dumped again: both are the same text.
set -eu
client() { mariadb --no-defaults --skip-ssl -h127.0.0.1 -P"$DB_PORT" -uroot --default-character-set=utf8mb4 "$@"; }
dump() { mariadb-dump --no-defaults --skip-ssl -h127.0.0.1 -P"$DB_PORT" -uroot --default-character-set=utf8mb4 --skip-dump-date --skip-comments "$@"; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"; client -e "DROP DATABASE IF EXISTS ${DB_NAME}_restored"' EXIT

client "$DB_NAME" <<'SQL'
CREATE TABLE parent (id INT UNSIGNED NOT NULL AUTO_INCREMENT, code CHAR(3) COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (id), UNIQUE KEY (code, id)) COMMENT='it''s \\';
CREATE TABLE child (
  id BIGINT PRIMARY KEY, parent INT UNSIGNED, code CHAR(3) COLLATE utf8mb4_bin, self BIGINT,
  total DECIMAL(10,3) DEFAULT 1.5,
  doc JSON, hidden INT INVISIBLE DEFAULT 7,
  made DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), note TEXT DEFAULT (CONCAT('it''s', '\\')),
  bits BIT(9), bin VARBINARY(9), label ENUM('a','it''s'), flags SET('x','y'), y YEAR, f FLOAT, d DOUBLE,
  KEY by_total (total DESC, code(2)), KEY by_expression ((LOWER(code))), KEY by_day ((CAST(made AS DATE))),
  CONSTRAINT c_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE SET NULL,
  CONSTRAINT c_self FOREIGN KEY (self) REFERENCES child (id), CHECK (code <> 'a''b'), CHECK (total > 0) NOT ENFORCED
);
-- Values of generated columns are in the dumps of mariadb-dump, and no MySQL takes them: definitions only.
CREATE TABLE computed (id INT PRIMARY KEY, total DECIMAL(10,3), twice DECIMAL(12,3) AS (total * 2) STORED,
  doc JSON, name VARCHAR(20) AS (doc->>'$."it''s"') VIRTUAL, low CHAR(9) AS (CAST(name AS CHAR(9))) STORED UNIQUE, KEY (twice));
CREATE TABLE latin (a VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german1_ci) CHARSET=latin1 COLLATE=latin1_german1_ci;
CREATE VIEW named AS SELECT p.code, COUNT(*) AS n FROM parent p JOIN child c ON c.parent = p.id GROUP BY p.code;
INSERT INTO parent (code) VALUES ('AbC'), ('x''y');
INSERT INTO child (id, parent, code, self, doc, made, bits, bin, label, flags, y, f, d) VALUES
  (1, 1, 'AbC', NULL, '{"it''s": "ü\\n", "n": 1.5, "b": [true, null]}', '2024-02-29 01:02:03.456', b'101', x'00ff27', 'it''s', 'x,y', 2024, 1.5, 1e300),
  (2, 1, NULL, 1, NULL, '2024-02-29', NULL, '', 'a', '', 1901, -0.1, 5e-324), (3, NULL, '😀', 2, '[]', NULL, b'1', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO latin VALUES ('äöü');
SQL
for options in "" "--hex-blob --skip-extended-insert" "--tz-utc --order-by-primary --complete-insert" "--single-transaction --quick --no-create-info" "--no-data --databases"; do
  # shellcheck disable=SC2086
  dump $options "$DB_NAME" > "$folder/first" && echo "dump $options: ok"
done
dump --opt --hex-blob "$DB_NAME" > "$folder/first.sql"
client -e "DROP DATABASE IF EXISTS ${DB_NAME}_restored; CREATE DATABASE ${DB_NAME}_restored COLLATE utf8mb4_0900_ai_ci"
client "${DB_NAME}_restored" < "$folder/first.sql" && echo "restore: ok"
dump --opt --hex-blob "${DB_NAME}_restored" > "$folder/second.sql"
diff "$folder/first.sql" "$folder/second.sql" && echo "dumps: the same"
client -N "${DB_NAME}_restored" -e "SELECT id, total, note, hidden FROM child; SELECT * FROM named" | sed "s/${DB_NAME}_restored/DB/"
