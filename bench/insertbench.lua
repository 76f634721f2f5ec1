-- A table with rows inserted at its tail and deleted at its head, and reads beside that (bench/insertbench.py).
--
-- Options: --rows of the table, --step what an event does (change, ranges, points, min), --batch rows that a change
-- inserts and deletes, --low and --high the ids that the table has.
sysbench.cmdline.options = {
   rows = {"Rows of the table", 2000000},
   step = {"change, ranges, points or min", "ranges"},
   batch = {"Rows of a change", 50},
   low = {"The smallest id", 1},
   high = {"The largest id", 2000000},
   hint = {"Whether ranges name their index", true},
}

local PRICES, CUSTOMERS, PRODUCTS, REGISTERS = 500 * 100, 100000, 10000, 1000

function connect()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

local function row(id)
   return string.format("(%d, '2026-01-01 00:00:00' + INTERVAL %d SECOND, %d, %d, %d, %.2f, '%s')", id, id,
                        sysbench.rand.uniform(1, REGISTERS), sysbench.rand.uniform(1, CUSTOMERS),
                        sysbench.rand.uniform(1, PRODUCTS), sysbench.rand.uniform(1, PRICES) / 100,
                        sysbench.rand.string("@@@@@@@@@@"))
end

function prepare()
   connect()
   con:query("CREATE TABLE purchases (id BIGINT NOT NULL PRIMARY KEY, at DATETIME NOT NULL, register INT NOT NULL, " ..
             "customer INT NOT NULL, product INT NOT NULL, price FLOAT NOT NULL, data VARCHAR(400) NOT NULL) " ..
             "ENGINE=" .. (os.getenv("BENCH_ENGINE") or "innodb"))
   con:bulk_insert_init("INSERT INTO purchases VALUES")
   for id = 1, sysbench.opt.rows do
      con:bulk_insert_next(row(id))
   end
   con:bulk_insert_done()
end

function thread_init()
   connect()
   low, high = sysbench.opt.low, sysbench.opt.high
   -- Each thread has ids of its own in the head and in the tail.
   share = sysbench.opt.threads
   low, high = low + sysbench.tid * sysbench.opt.batch, high + 1 + sysbench.tid * sysbench.opt.batch
end

function thread_done()
   con:disconnect()
end

local function priced()
   return string.format("price >= %.2f", sysbench.rand.uniform(1, PRICES) / 100)
end

local RANGES = {
   {"register_price_customer", "register, price, customer",
    function() return "register >= " .. sysbench.rand.uniform(1, REGISTERS) end},
   {"price_customer", "price, customer", priced},
   {"price_at_customer", "price, at, customer", priced},
}

local function range()
   local index, columns, condition = unpack(RANGES[sysbench.rand.uniform(1, #RANGES)])
   local hint = sysbench.opt.hint and "FORCE INDEX (" .. index .. ")" or ""
   con:query(string.format("SELECT %s FROM purchases %s WHERE %s ORDER BY %s LIMIT 10", columns, hint, condition(),
                           columns))
end

local function change()
   local batch, rows = sysbench.opt.batch, {}
   for n = 0, batch - 1 do
      rows[#rows + 1] = row(high + n)
   end
   con:query("BEGIN")
   con:query("INSERT INTO purchases VALUES " .. table.concat(rows, ","))
   con:query(string.format("DELETE FROM purchases WHERE id >= %d AND id < %d", low, low + batch))
   con:query("COMMIT")
   low, high = low + batch * share, high + batch * share
end

local function point()
   con:query("SELECT * FROM purchases WHERE id = " .. sysbench.rand.uniform(low, high))
end

local function min()
   con:query("SELECT MIN(id) FROM purchases")
end

local STEPS = {change = change, ranges = range, points = point, min = min}

function event()
   STEPS[sysbench.opt.step]()
end
