"""Whole views and change streams by Arrow Flight."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import flight

from viewmill.serve.users import add_user


def client_of(server):
    return flight.connect(f"grpc://127.0.0.1:{server.port}")


def get(client, ticket, *options):
    text = ticket if isinstance(ticket, str) else json.dumps(ticket)
    return client.do_get(flight.Ticket(text.encode()), *options)


def test_tables_views_and_queries_come_as_arrow(served):
    with served.serve_flight(port=0) as server, client_of(server) as client:
        found = get(client, "revenue").read_all().to_pylist()
        assert sorted(row["customer"] for row in found) == ["ann", "bob"]
        assert get(client, "revenue").read_all().equals(served["revenue"].to_arrow())
        query = {"sql": "SELECT sum(amount) AS s FROM orders WHERE id > 1"}
        assert get(client, query).read_all().to_pylist() == [{"s": Decimal("5.00")}]
        names = {each.descriptor.path[0].decode() for each in client.list_flights()}
        assert names == {"orders", "revenue"}
        schema = client.get_flight_info(flight.FlightDescriptor.for_path("orders")).schema
        assert schema.names == ["id", "customer", "amount", "at", "paid", "weight"]


@pytest.mark.parametrize(
    "ticket",
    ["nowhere", {"sql": "DROP TABLE orders"}, {"sql": "SELECT * FROM '/etc/passwd'"}, {"sql": ""},
     {"sql": "SELECT 1; SELECT 2"}, '{"x": 1}', "{", {"subscribe": "nowhere"}, 'a" b'],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(served, ticket):
    with served.serve_flight(port=0) as server, client_of(server) as client:
        with pytest.raises(pa.ArrowInvalid):
            get(client, ticket).read_all()
        assert get(client, "orders").read_all().num_rows == 2


def test_a_change_stream_adds_up_to_the_rows(served):
    with served.serve_flight(port=0) as server, client_of(server) as client:
        reader = get(client, {"subscribe": "orders"})
        first = reader.read_chunk().data
        assert (first.num_rows, first.schema.names[:2]) == (2, ["version", "multiplicity"])
        served.insert("orders", [(3, "eve", 1, None, None, None)])
        served.delete("orders", [(2, "bob", 5, None, False, None)])
        changes = [reader.read_chunk().data.to_pylist()[0] for _ in range(2)]
        assert [(each["id"], each["multiplicity"]) for each in changes] == [(3, 1), (2, -1)]
        assert changes[1]["version"] == served.version
        reader.cancel()


def test_users_and_grants_are_those_of_serve(served, tmp_path):
    users, grants = tmp_path / "users", tmp_path / "grants.sql"
    add_user(users, "ann", "p")
    grants.write_text("GRANT SELECT ON orders TO ann WHERE customer = current_user")
    with (
        served.serve_flight(port=0, users=users, grants=grants) as server,
        client_of(server) as client,
    ):
        with pytest.raises(flight.FlightUnauthenticatedError):
            get(client, "orders").read_all()
        for name, password in (("ann", "wrong"), ("bob", "p")):
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.authenticate_basic_token(name, password)
        token = client.authenticate_basic_token("ann", "p")
        options = flight.FlightCallOptions(headers=[token])
        assert get(client, "orders", options).read_all().column("id").to_pylist() == [1]
        with pytest.raises(flight.FlightUnauthorizedError):
            get(client, "revenue", options).read_all()
        with pytest.raises(pa.ArrowInvalid):
            get(client, {"subscribe": "orders"}, options).read_all()
        assert len(list(client.list_flights(options=options))) == 1
