"""Small tables like those of TPC-DS, and queries of the shapes of its 99, each named after one."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal

Row = tuple[object, ...]

TABLES = {
    "date_dim": "d_date_sk INT, d_date DATE, d_year INT, d_moy INT, d_qoy INT, d_day_name STRING,"
    " d_week_seq INT",
    "item": "i_item_sk INT, i_item_id STRING, i_category STRING, i_class STRING, i_brand STRING,"
    " i_manufact_id INT, i_current_price DECIMAL(7,2)",
    "store": "s_store_sk INT, s_store_name STRING, s_state STRING, s_zip STRING",
    "customer": "c_customer_sk INT, c_first_name STRING, c_last_name STRING, c_addr_sk INT,"
    " c_demo_sk INT, c_birth_year INT",
    "address": "ca_addr_sk INT, ca_state STRING, ca_city STRING, ca_zip STRING",
    "demographics": "hd_demo_sk INT, hd_dep_count INT, hd_buy_potential STRING",
    "store_sales": "ss_date_sk INT, ss_item_sk INT, ss_store_sk INT, ss_customer_sk INT,"
    " ss_ticket INT, ss_quantity INT, ss_price DECIMAL(7,2), ss_profit DECIMAL(7,2)",
    "web_sales": "ws_date_sk INT, ws_item_sk INT, ws_customer_sk INT, ws_order INT,"
    " ws_warehouse INT, ws_quantity INT, ws_price DECIMAL(7,2), ws_profit DECIMAL(7,2)",
    "store_returns": "sr_date_sk INT, sr_item_sk INT, sr_customer_sk INT, sr_store_sk INT,"
    " sr_ticket INT, sr_amount DECIMAL(7,2)",
    "inventory": "inv_date_sk INT, inv_item_sk INT, inv_warehouse INT, inv_quantity INT",
}


class Rows:
    """Draws rows with many equal keys, and NULLs where the real tables have some."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, table: str) -> Row:
        """A row of a table."""
        return _ROWS[table](self)

    def below(self, most: int, *, nulls: float = 0.0) -> int | None:
        return None if self.random.random() < nulls else self.random.randrange(most)

    def money(self, most: int = 9000) -> Decimal:
        return Decimal(self.random.randrange(-most // 9, most)) / 100

    def one(self, *options: str) -> str | None:
        return None if self.random.random() < 0.08 else self.random.choice(options)


def _day(rows: Rows) -> Row:
    sk = rows.random.randrange(12)
    day = dt.date(1999, 11, 1) + dt.timedelta(days=sk * 23)
    return (sk, day, day.year, day.month, (day.month + 2) // 3, day.strftime("%A"), sk // 2)


_STATES = ("CA", "NY", "TX")
_ROWS: dict[str, Callable[[Rows], Row]] = {
    "date_dim": _day,
    "item": lambda r: (
        r.below(6), r.one("AAA1", "AAA2", "BBB1"), r.one("Books", "Music", "Home"),
        r.one("pop", "rock"), r.one("b#1", "b#2", "b#3"), r.below(3, nulls=0.1), r.money(),
    ),
    "store": lambda r: (r.below(3), r.one("ese", "ought", "able"), r.one(*_STATES), "12345-678"),
    "customer": lambda r: (
        r.below(5), r.one("Ann", "Bob"), r.one("Smith", "Jones"), r.below(4, nulls=0.1),
        r.below(3), r.below(60),
    ),
    "address": lambda r: (
        r.below(4), r.one(*_STATES), r.one("Fairview", "Midway"), r.one("85669", "86197", "123"),
    ),
    "demographics": lambda r: (r.below(3), r.below(5), r.one(">10000", "unknown", "0-500")),
    "store_sales": lambda r: (
        r.below(12, nulls=0.05), r.below(6), r.below(3), r.below(5, nulls=0.1), r.below(7),
        r.below(20, nulls=0.1), r.money(), r.money(),
    ),
    "web_sales": lambda r: (
        r.below(12), r.below(6), r.below(5, nulls=0.1), r.below(6), r.below(2),
        r.below(20, nulls=0.1), r.money(), r.money(),
    ),
    "store_returns": lambda r: (
        r.below(12), r.below(6), r.below(5, nulls=0.1), r.below(3), r.below(7), r.money(),
    ),
    "inventory": lambda r: (r.below(12), r.below(6), r.below(2), r.below(90, nulls=0.05)),
}  # fmt: skip

QUERIES = {
    1: """WITH returned AS (
            SELECT sr_customer_sk AS customer, sr_store_sk AS store, SUM(sr_amount) AS total
            FROM store_returns JOIN date_dim ON sr_date_sk = d_date_sk WHERE d_year = 2000
            GROUP BY sr_customer_sk, sr_store_sk)
          SELECT c_last_name, r.total FROM returned r JOIN store ON s_store_sk = r.store
          JOIN customer ON r.customer = c_customer_sk
          WHERE r.total > (SELECT AVG(total) * 1.2 FROM returned q WHERE q.store = r.store)
            AND s_state = 'CA'
          ORDER BY c_last_name, r.total LIMIT 10""",
    2: """WITH weeks AS (
            SELECT d_week_seq, SUM(CASE WHEN d_day_name = 'Sunday' THEN price END) AS sun,
                   SUM(CASE WHEN d_day_name = 'Monday' THEN price END) AS mon
            FROM (SELECT ws_date_sk AS day, ws_price AS price FROM web_sales
                  UNION ALL SELECT ss_date_sk, ss_price FROM store_sales) s
            JOIN date_dim ON d_date_sk = s.day GROUP BY d_week_seq)
          SELECT a.d_week_seq, ROUND(CAST(a.sun AS DOUBLE) / 2, 2) AS half, b.mon
          FROM weeks a JOIN weeks b ON a.d_week_seq = b.d_week_seq - 1""",
    3: """SELECT d_year, i_brand, SUM(ss_price) AS total FROM date_dim, store_sales, item
          WHERE d_date_sk = ss_date_sk AND ss_item_sk = i_item_sk AND d_moy IN (11, 12, 1)
          GROUP BY d_year, i_brand ORDER BY d_year, total DESC, i_brand LIMIT 5""",
    4: """WITH years AS (
            SELECT c_customer_sk AS customer, c_last_name AS name, d_year AS y,
                   SUM(ss_price) AS total, 's' AS kind
            FROM customer, store_sales, date_dim
            WHERE c_customer_sk = ss_customer_sk AND ss_date_sk = d_date_sk
            GROUP BY c_customer_sk, c_last_name, d_year
            UNION ALL
            SELECT c_customer_sk, c_last_name, d_year, SUM(ws_price), 'w'
            FROM customer, web_sales, date_dim
            WHERE c_customer_sk = ws_customer_sk AND ws_date_sk = d_date_sk
            GROUP BY c_customer_sk, c_last_name, d_year)
          SELECT a.customer, a.name FROM years a, years b, years c
          WHERE a.customer = b.customer AND b.customer = c.customer
            AND a.kind = 's' AND b.kind = 's' AND c.kind = 'w' AND a.y = 1999 AND b.y = 2000
            AND c.y = 2000 AND CASE WHEN a.total > 0 THEN b.total ELSE 0 END <= c.total""",
    5: """WITH stores AS (
            SELECT s_store_name AS name, SUM(price) AS sales, SUM(amount) AS returned
            FROM (SELECT ss_store_sk AS store, ss_date_sk AS day, ss_price AS price,
                         CAST(0 AS DECIMAL(7,2)) AS amount FROM store_sales
                  UNION ALL SELECT sr_store_sk, sr_date_sk, CAST(0 AS DECIMAL(7,2)), sr_amount
                  FROM store_returns) q, date_dim, store
            WHERE q.day = d_date_sk AND q.store = s_store_sk AND d_year = 2000
            GROUP BY s_store_name),
          web AS (
            SELECT i_brand AS name, SUM(ws_price) AS sales, CAST(0 AS DECIMAL(7,2)) AS returned
            FROM web_sales, item WHERE ws_item_sk = i_item_sk GROUP BY i_brand)
          SELECT channel, name, SUM(sales) AS sales, SUM(returned) AS returned FROM (
            SELECT 'store' AS channel, name, sales, returned FROM stores
            UNION ALL SELECT 'web', name, sales, returned FROM web) x
          GROUP BY ROLLUP (channel, name) ORDER BY channel, name, sales LIMIT 20""",
    6: """SELECT ca_state, COUNT(*) AS n FROM address, customer, store_sales, item i
          WHERE ca_addr_sk = c_addr_sk AND c_customer_sk = ss_customer_sk
            AND ss_item_sk = i.i_item_sk AND i.i_current_price > 1.2 * (
              SELECT AVG(j.i_current_price) FROM item j WHERE j.i_category = i.i_category)
          GROUP BY ca_state HAVING COUNT(*) >= 2 ORDER BY n, ca_state LIMIT 10""",
    8: """SELECT s_store_name, SUM(ss_profit) AS total FROM store_sales, store, (
            SELECT zip FROM (
              SELECT SUBSTR(ca_zip, 1, 2) AS zip FROM address WHERE ca_zip IN ('85669', '123')
              INTERSECT
              SELECT SUBSTR(ca_zip, 1, 2) FROM address JOIN customer ON ca_addr_sk = c_addr_sk
              GROUP BY ca_zip HAVING COUNT(*) > 1) z) v
          WHERE ss_store_sk = s_store_sk AND SUBSTR(s_zip, 1, 1) = SUBSTR(v.zip, 1, 1)
          GROUP BY s_store_name""",
    9: """SELECT s_store_sk, CASE WHEN (SELECT COUNT(*) FROM store_sales
                                        WHERE ss_quantity BETWEEN 1 AND 9) > 5
                                  THEN (SELECT AVG(ss_price) FROM store_sales
                                        WHERE ss_quantity BETWEEN 1 AND 9)
                                  ELSE (SELECT AVG(ss_profit) FROM store_sales
                                        WHERE ss_quantity BETWEEN 1 AND 9) END AS bucket
          FROM store""",
    10: """SELECT c_birth_year, COUNT(*) AS n FROM customer c, address a
           WHERE c.c_addr_sk = a.ca_addr_sk AND ca_state IN ('CA', 'TX')
             AND EXISTS (SELECT * FROM store_sales, date_dim WHERE ss_customer_sk = c_customer_sk
                         AND ss_date_sk = d_date_sk AND d_year = 2000)
             AND (EXISTS (SELECT * FROM web_sales WHERE ws_customer_sk = c_customer_sk)
                  OR EXISTS (SELECT * FROM store_returns WHERE sr_customer_sk = c_customer_sk))
           GROUP BY c_birth_year""",
    12: """SELECT i_item_id, i_category, SUM(ws_price) AS revenue,
             CAST(SUM(ws_price) AS DOUBLE) * 100
             / NULLIF(CAST(SUM(SUM(ws_price)) OVER (PARTITION BY i_class) AS DOUBLE), 0) AS ratio
           FROM web_sales, item, date_dim
           WHERE ws_item_sk = i_item_sk AND ws_date_sk = d_date_sk
             AND d_date BETWEEN DATE '1999-11-01' AND DATE '1999-11-01' + INTERVAL 90 DAYS
           GROUP BY i_item_id, i_category, i_class""",
    14: """WITH both_ways AS (
             SELECT i_brand AS brand FROM store_sales JOIN item ON ss_item_sk = i_item_sk
             INTERSECT SELECT i_brand FROM web_sales JOIN item ON ws_item_sk = i_item_sk),
           average AS (SELECT AVG(q * p) AS a FROM (
             SELECT ss_quantity AS q, ss_price AS p FROM store_sales
             UNION ALL SELECT ws_quantity, ws_price FROM web_sales) x)
           SELECT i_brand, i_class, SUM(ss_quantity * ss_price) AS sales, COUNT(*) AS n
           FROM store_sales JOIN item ON ss_item_sk = i_item_sk
           WHERE i_brand IN (SELECT brand FROM both_ways)
           GROUP BY ROLLUP (i_brand, i_class)
           HAVING SUM(ss_quantity * ss_price) > (SELECT a FROM average)""",
    16: """SELECT COUNT(DISTINCT ws_order) AS orders, SUM(ws_price) AS cost FROM web_sales w
           WHERE EXISTS (SELECT * FROM web_sales v WHERE v.ws_order = w.ws_order
                         AND v.ws_warehouse <> w.ws_warehouse)
             AND NOT EXISTS (SELECT * FROM store_returns WHERE sr_ticket = w.ws_order)""",
    17: """SELECT i_item_id, s_state, COUNT(ss_quantity) AS n, AVG(ss_quantity) AS a,
             STDDEV_SAMP(ss_quantity) AS s,
             STDDEV_SAMP(ss_quantity) / NULLIF(AVG(ss_quantity), 0) AS cov
           FROM store_sales JOIN store_returns ON ss_ticket = sr_ticket AND ss_item_sk = sr_item_sk
           JOIN item ON i_item_sk = ss_item_sk JOIN store ON s_store_sk = ss_store_sk
           GROUP BY i_item_id, s_state""",
    18: """SELECT i_item_id, ca_state, ca_city, AVG(CAST(ws_quantity AS DECIMAL(12,2))) AS a,
             GROUPING(ca_state) AS g
           FROM web_sales, item, customer LEFT JOIN address ON c_addr_sk = ca_addr_sk
           WHERE ws_item_sk = i_item_sk AND ws_customer_sk = c_customer_sk
           GROUP BY ROLLUP (i_item_id, ca_state, ca_city)""",
    20: """SELECT i_item_id, i_class, SUM(ws_price) AS revenue,
             SUM(ws_price) * 100.0000 / NULLIF(SUM(SUM(ws_price)) OVER (PARTITION BY i_class), 0)
               AS ratio
           FROM web_sales, item WHERE ws_item_sk = i_item_sk AND i_category IN ('Books', 'Music')
           GROUP BY i_item_id, i_class ORDER BY i_class, i_item_id, ratio LIMIT 10""",
    21: """SELECT inv_warehouse, i_item_id,
             SUM(CASE WHEN d_date < DATE '2000-03-11' THEN inv_quantity ELSE 0 END) AS before,
             SUM(CASE WHEN d_date >= DATE '2000-03-11' THEN inv_quantity ELSE 0 END) AS after
           FROM inventory, item, date_dim WHERE i_item_sk = inv_item_sk AND inv_date_sk = d_date_sk
             AND i_current_price BETWEEN 0.99 AND 80.49
           GROUP BY inv_warehouse, i_item_id""",
    23: """WITH frequent AS (
             SELECT ss_item_sk AS item, d_date, COUNT(*) AS n FROM store_sales
             JOIN date_dim ON ss_date_sk = d_date_sk GROUP BY ss_item_sk, d_date
             HAVING COUNT(*) > 1),
           best AS (SELECT MAX(total) AS most FROM (
             SELECT ss_customer_sk, SUM(ss_quantity * ss_price) AS total FROM store_sales
             GROUP BY ss_customer_sk) t)
           SELECT SUM(ws_quantity * ws_price) AS s FROM web_sales
           WHERE ws_item_sk IN (SELECT item FROM frequent)
             AND ws_customer_sk IN (
               SELECT ss_customer_sk FROM store_sales GROUP BY ss_customer_sk
               HAVING SUM(ss_quantity * ss_price) > 0.5 * (SELECT most FROM best))""",
    28: """SELECT * FROM (SELECT AVG(ss_price) AS a1, COUNT(ss_price) AS n1,
                                 COUNT(DISTINCT ss_price) AS d1 FROM store_sales
                          WHERE ss_quantity BETWEEN 0 AND 5) b1,
                         (SELECT AVG(ss_price) AS a2, COUNT(ss_price) AS n2,
                                 COUNT(DISTINCT ss_price) AS d2 FROM store_sales
                          WHERE ss_quantity BETWEEN 6 AND 10) b2""",
    35: """SELECT ca_state, COUNT(*) AS n, MIN(hd_dep_count) AS a, MAX(hd_dep_count) AS b,
             AVG(hd_dep_count) AS c
           FROM customer, address, demographics
           WHERE c_addr_sk = ca_addr_sk AND c_demo_sk = hd_demo_sk
             AND (EXISTS (SELECT 1 FROM store_sales WHERE ss_customer_sk = c_customer_sk)
                  OR c_birth_year > 50)
           GROUP BY ca_state""",
    36: """SELECT i_category, i_class, GROUPING(i_category) + GROUPING(i_class) AS level,
             CAST(SUM(ss_profit) AS DOUBLE) / NULLIF(CAST(SUM(ss_price) AS DOUBLE), 0) AS margin,
             RANK() OVER (PARTITION BY GROUPING(i_category) + GROUPING(i_class)
                          ORDER BY SUM(ss_profit) DESC) AS place
           FROM store_sales JOIN item ON i_item_sk = ss_item_sk
           GROUP BY ROLLUP (i_category, i_class)""",
    38: """SELECT COUNT(*) AS n FROM (
             SELECT c_last_name, d_date FROM store_sales, date_dim, customer
             WHERE ss_date_sk = d_date_sk AND ss_customer_sk = c_customer_sk
             INTERSECT
             SELECT c_last_name, d_date FROM web_sales, date_dim, customer
             WHERE ws_date_sk = d_date_sk AND ws_customer_sk = c_customer_sk) hot""",
    39: """WITH stock AS (
             SELECT inv_warehouse AS w, inv_item_sk AS i, d_moy AS m,
                    STDDEV_SAMP(inv_quantity) AS s, AVG(inv_quantity) AS mean
             FROM inventory JOIN date_dim ON inv_date_sk = d_date_sk
             GROUP BY inv_warehouse, inv_item_sk, d_moy)
           SELECT a.w, a.i, a.m, a.mean, b.m AS next, b.mean AS then
           FROM stock a JOIN stock b ON a.i = b.i AND a.w = b.w AND b.m = a.m + 1
           WHERE CASE a.mean WHEN 0 THEN 0 ELSE a.s / a.mean END > 0.1""",
    44: """SELECT best.rnk, i1.i_item_id AS best_item, i2.i_item_id AS worst_item
           FROM (SELECT item, rnk FROM (
                   SELECT ss_item_sk AS item, RANK() OVER (ORDER BY AVG(ss_profit) DESC) AS rnk
                   FROM store_sales GROUP BY ss_item_sk) v WHERE rnk < 4) best
           JOIN (SELECT item, rnk FROM (
                   SELECT ss_item_sk AS item, RANK() OVER (ORDER BY AVG(ss_profit)) AS rnk
                   FROM store_sales GROUP BY ss_item_sk) v WHERE rnk < 4) worst
             ON best.rnk = worst.rnk
           JOIN item i1 ON i1.i_item_sk = best.item JOIN item i2 ON i2.i_item_sk = worst.item""",
    47: """WITH v AS (
             SELECT i_category, d_year, d_moy, SUM(ss_price) AS total,
                    AVG(SUM(ss_price)) OVER (PARTITION BY i_category, d_year) AS mean,
                    RANK() OVER (PARTITION BY i_category ORDER BY d_year, d_moy) AS rn
             FROM item, store_sales, date_dim
             WHERE ss_item_sk = i_item_sk AND ss_date_sk = d_date_sk
             GROUP BY i_category, d_year, d_moy)
           SELECT a.i_category, a.d_year, a.d_moy, a.total, lag.total AS p, lead.total AS n
           FROM v a JOIN v lag ON a.i_category = lag.i_category AND a.rn = lag.rn + 1
           JOIN v lead ON a.i_category = lead.i_category AND a.rn = lead.rn - 1
           WHERE a.mean > 0 AND ABS(a.total - a.mean) > 0.1 * a.mean""",
    51: """WITH web AS (
             SELECT ws_item_sk AS item, d_date, SUM(SUM(ws_price)) OVER (
               PARTITION BY ws_item_sk ORDER BY d_date
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total
             FROM web_sales JOIN date_dim ON ws_date_sk = d_date_sk GROUP BY ws_item_sk, d_date),
           shop AS (
             SELECT ss_item_sk AS item, d_date, SUM(SUM(ss_price)) OVER (
               PARTITION BY ss_item_sk ORDER BY d_date
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total
             FROM store_sales JOIN date_dim ON ss_date_sk = d_date_sk GROUP BY ss_item_sk, d_date)
           SELECT COALESCE(web.item, shop.item) AS item, COALESCE(web.d_date, shop.d_date) AS day,
                  web.total AS web_total, shop.total AS shop_total
           FROM web FULL OUTER JOIN shop ON web.item = shop.item AND web.d_date = shop.d_date""",
    58: """WITH s AS (SELECT i_item_id AS item, SUM(ss_price) AS rev FROM store_sales, item
                      WHERE ss_item_sk = i_item_sk GROUP BY i_item_id),
                w AS (SELECT i_item_id AS item, SUM(ws_price) AS rev FROM web_sales, item
                      WHERE ws_item_sk = i_item_sk GROUP BY i_item_id)
           SELECT s.item, s.rev / ((s.rev + w.rev) / 2) * 100 AS deviation FROM s, w
           WHERE s.item = w.item AND s.rev + w.rev > 1 AND s.rev BETWEEN 0.5 * w.rev AND 9 * w.rev
           ORDER BY s.item, deviation LIMIT 5""",
    61: """SELECT p.total AS part, q.total AS whole, p.total / NULLIF(q.total, 0) * 100 AS share
           FROM (SELECT SUM(ss_price) AS total FROM store_sales, store
                 WHERE ss_store_sk = s_store_sk AND s_state = 'CA') p,
                (SELECT SUM(ss_price) AS total FROM store_sales) q
           LIMIT 100""",
    67: """SELECT * FROM (
             SELECT i_category, i_class, i_brand, d_qoy, sales,
                    RANK() OVER (PARTITION BY i_category ORDER BY sales DESC) AS rk
             FROM (SELECT i_category, i_class, i_brand, d_qoy,
                          SUM(COALESCE(ss_price * ss_quantity, 0)) AS sales
                   FROM store_sales, date_dim, item
                   WHERE ss_date_sk = d_date_sk AND ss_item_sk = i_item_sk
                   GROUP BY ROLLUP (i_category, i_class, i_brand, d_qoy)) d) r
           WHERE rk <= 4""",
    70: """SELECT s_state, SUM(ss_profit) AS total, GROUPING(s_state) AS g
           FROM store_sales JOIN store ON s_store_sk = ss_store_sk
           WHERE s_state IN (SELECT s_state FROM (
             SELECT s_state, RANK() OVER (ORDER BY SUM(ss_profit) DESC) AS ranking
             FROM store_sales JOIN store ON s_store_sk = ss_store_sk GROUP BY s_state) t
             WHERE ranking <= 2)
           GROUP BY ROLLUP (s_state)""",
    75: """SELECT i_brand, SUM(quantity) AS q, SUM(amount) AS a FROM (
             SELECT i_brand, ss_quantity - COALESCE(0, 1) AS quantity,
                    ss_price - COALESCE(sr_amount, 0.0) AS amount
             FROM store_sales JOIN item ON i_item_sk = ss_item_sk
             LEFT JOIN store_returns ON ss_ticket = sr_ticket AND ss_item_sk = sr_item_sk
             UNION
             SELECT i_brand, ws_quantity, ws_price FROM web_sales
             JOIN item ON i_item_sk = ws_item_sk) detail
           GROUP BY i_brand""",
    87: """SELECT COUNT(*) AS n FROM (
             (SELECT DISTINCT ss_customer_sk, ss_date_sk FROM store_sales)
             EXCEPT (SELECT DISTINCT ws_customer_sk, ws_date_sk FROM web_sales)
             EXCEPT (SELECT DISTINCT sr_customer_sk, sr_date_sk FROM store_returns)) cool""",
    88: """SELECT * FROM (SELECT COUNT(*) AS h1 FROM store_sales JOIN demographics
                          ON ss_ticket = hd_demo_sk WHERE hd_dep_count = 3) s1,
                         (SELECT COUNT(*) AS h2 FROM store_sales JOIN demographics
                          ON ss_ticket = hd_demo_sk WHERE hd_dep_count < 3
                          AND hd_buy_potential LIKE '%0%') s2""",
    93: """SELECT ss_customer_sk, SUM(actual) AS total FROM (
             SELECT ss_customer_sk, CASE WHEN sr_ticket IS NOT NULL
               THEN (ss_quantity - 1) * ss_price ELSE ss_quantity * ss_price END AS actual
             FROM store_sales LEFT OUTER JOIN store_returns
               ON sr_item_sk = ss_item_sk AND sr_ticket = ss_ticket) t
           GROUP BY ss_customer_sk ORDER BY total, ss_customer_sk LIMIT 3""",
    97: """WITH s AS (SELECT ss_customer_sk AS c, ss_item_sk AS i FROM store_sales
                      GROUP BY ss_customer_sk, ss_item_sk),
                w AS (SELECT ws_customer_sk AS c, ws_item_sk AS i FROM web_sales
                      GROUP BY ws_customer_sk, ws_item_sk)
           SELECT SUM(CASE WHEN s.c IS NOT NULL AND w.c IS NULL THEN 1 ELSE 0 END) AS store_only,
                  SUM(CASE WHEN s.c IS NULL AND w.c IS NOT NULL THEN 1 ELSE 0 END) AS web_only,
                  SUM(CASE WHEN s.c IS NOT NULL AND w.c IS NOT NULL THEN 1 ELSE 0 END) AS both
           FROM s FULL OUTER JOIN w ON s.c = w.c AND s.i = w.i""",
    98: """SELECT i_item_id, i_class, SUM(ss_price) AS revenue,
             CAST(SUM(ss_price) * 100.00 / NULLIF(SUM(SUM(ss_price)) OVER (PARTITION BY i_class), 0)
                  AS DECIMAL(12,4)) AS ratio
           FROM store_sales, item, date_dim
           WHERE ss_item_sk = i_item_sk AND ss_date_sk = d_date_sk
             AND d_date BETWEEN CAST('1999-11-22' AS DATE)
                            AND (CAST('1999-11-22' AS DATE) + INTERVAL 30 DAYS)
           GROUP BY i_item_id, i_class""",
}
