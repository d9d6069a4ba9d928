"""Nexmark: auctions, their bids and bidders; its queries and the bench over them."""
