"""The queries of Nexmark in Spark SQL, and those that no SQL over tables can say.

Numbers are those of the suite. Its event-time windows are Spark's `window`, its sessions are gaps
found with LAG, its side input is a table.
"""

from __future__ import annotations

NOT_SQL = {12: "it counts by the time at which a row is processed, which is in no table"}

_HOT = """
  select auction, count(*) as num, window.start as starts
  from bid group by auction, window(date_time, '10 seconds', '2 seconds')"""

_STATS = """count(*) as total_bids,
  count(case when price < 10000 then 1 end) as rank1_bids,
  count(case when price >= 10000 and price < 1000000 then 1 end) as rank2_bids,
  count(case when price >= 1000000 then 1 end) as rank3_bids"""

_DISTINCT = """count(distinct bidder) as total_bidders,
  count(distinct case when price < 10000 then bidder end) as rank1_bidders,
  count(distinct case when price >= 1000000 then bidder end) as rank3_bidders,
  count(distinct auction) as total_auctions"""

QUERIES = {
    0: "select auction, bidder, price, date_time, extra from bid",
    1: "select auction, bidder, 0.908 * price as price, date_time, extra from bid",
    2: "select auction, price from bid where auction % 123 = 0",
    3: """
select p.name, p.city, p.state, a.id from auction a join person p on a.seller = p.id
where a.category = 10 and p.state in ('OR', 'ID', 'CA')""",
    4: """
select category, avg(final) as average from (
  select a.id, a.category, max(b.price) as final from auction a join bid b on a.id = b.auction
  where b.date_time between a.date_time and a.expires group by a.id, a.category) as winning
group by category""",
    5: f"""
select hot.auction, hot.num, hot.starts from ({_HOT}) as hot join (
  select max(num) as most, starts from ({_HOT}) as counted group by starts) as best
on hot.starts = best.starts and hot.num >= best.most""",
    6: """
select seller, id, avg(final) over (
  partition by seller order by expires, id rows between 9 preceding and current row) as average
from (
  select a.id, a.seller, a.expires, max(b.price) as final
  from auction a join bid b on a.id = b.auction
  where b.date_time between a.date_time and a.expires
  group by a.id, a.seller, a.expires) as winning""",
    7: """
select b.auction, b.price, b.bidder, b.date_time from bid b join (
  select max(price) as most, window.end as ends
  from bid group by window(date_time, '10 seconds')) as best
on b.price = best.most
where b.date_time between best.ends - interval '10' second and best.ends""",
    8: """
select p.id, p.name, p.starts from (
  select id, name, window.start as starts
  from person group by id, name, window(date_time, '10 seconds')) as p join (
  select seller, window.start as starts
  from auction group by seller, window(date_time, '10 seconds')) as a
on p.id = a.seller and p.starts = a.starts""",
    9: """
select id, item, seller, category, auction, bidder, price, bid_time from (
  select a.id, a.item, a.seller, a.category, b.auction, b.bidder, b.price,
    b.date_time as bid_time,
    row_number() over (partition by a.id order by b.price desc, b.date_time) as place
  from auction a join bid b on a.id = b.auction
  where b.date_time between a.date_time and a.expires) as ranked
where place <= 1""",
    10: """
select auction, bidder, price, date_time, extra, date_format(date_time, 'yyyy-MM-dd') as day,
  date_format(date_time, 'HH:mm') as minute from bid""",
    11: """
select bidder, session, count(*) as bids, min(date_time) as starts, max(date_time) as ends from (
  select bidder, date_time, sum(is_new) over (partition by bidder order by date_time) as session
  from (
    select bidder, date_time, case when date_time <= lag(date_time) over (
        partition by bidder order by date_time) + interval '10' second then 0 else 1 end as is_new
    from bid) as marked) as placed
group by bidder, session""",
    13: """
select b.auction, b.bidder, b.price, b.date_time, s.value
from bid b join side_input s on b.auction % 100 = s.key""",
    14: """
select auction, bidder, 0.908 * price as price,
  case when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
    when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime'
    else 'otherTime' end as time_type,
  date_time, length(extra) - length(replace(extra, 'c', '')) as c_counts
from bid where 0.908 * price > 1000000 and 0.908 * price < 50000000""",
    15: f"""
select cast(date_time as date) as day, {_STATS}, {_DISTINCT} from bid
group by cast(date_time as date)""",
    16: f"""
select channel, cast(date_time as date) as day, max(date_format(date_time, 'HH:mm')) as minute,
  {_STATS}, {_DISTINCT} from bid group by channel, cast(date_time as date)""",
    17: f"""
select auction, cast(date_time as date) as day, {_STATS}, min(price) as least, max(price) as most,
  avg(price) as average, sum(price) as total from bid
group by auction, cast(date_time as date)""",
    18: """
select auction, bidder, price, channel, url, date_time, extra from (
  select auction, bidder, price, channel, url, date_time, extra,
    row_number() over (partition by bidder, auction order by date_time desc) as place
  from bid) as ranked
where place <= 1""",
    19: """
select auction, bidder, price, date_time, place from (
  select auction, bidder, price, date_time,
    row_number() over (partition by auction order by price desc) as place from bid) as ranked
where place <= 10""",
    20: """
select b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, a.item, a.initial_bid,
  a.reserve, a.expires, a.seller, a.category
from bid b join auction a on b.auction = a.id where a.category = 10""",
    21: """
select auction, bidder, price, channel,
  case when lower(channel) = 'apple' then '0' when lower(channel) = 'google' then '1'
    when lower(channel) = 'facebook' then '2' when lower(channel) = 'baidu' then '3'
    else regexp_extract(url, 'channel_id=([^&]*)', 1) end as channel_id
from bid
where regexp_extract(url, 'channel_id=([^&]*)', 1) <> ''
  or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    22: """
select auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
  split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bid""",
}
