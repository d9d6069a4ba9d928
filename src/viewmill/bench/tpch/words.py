"""The values that columns of TPC-H draw from, as the specification lists them (clause 4.2.2.13)."""

from __future__ import annotations

from itertools import product

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4),
    ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2),
    ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0),
    ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
MODES = ("AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK")
TYPES = tuple(
    map(
        " ".join,
        product(
            ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
            ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
            ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
        ),
    )
)
CONTAINERS = tuple(
    map(
        " ".join,
        product(
            ("SM", "LG", "MED", "JUMBO", "WRAP"),
            ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
        ),
    )
)
BRANDS = tuple(f"Brand#{m}{n}" for m, n in product(range(1, 6), range(1, 6)))
_COLORS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood "
    "burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim "
    "dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew "
    "hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium "
    "metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru "
    "pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky "
    "slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow"
)
COLORS = tuple(_COLORS.split())
# Comments are made of these.
_NOUNS = (
    "foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes "
    "courts dolphins multipliers sauternes warthogs frets dinos attainments somas braids "
    "hockey players frays warhorses dugouts notornis epitaphs pearls tithes waters orbits gifts "
    "sheaves depths sentiments decoys realms pains grouches escapades packages requests accounts "
    "deposits"
)
NOUNS = tuple(_NOUNS.split())
_VERBS = (
    "sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose "
    "sublate solve thrash promise engage hinder print x-ray breach eat grow impress mold poach "
    "run dazzle snooze doze unwind kindle play hang believe doubt"
)
VERBS = tuple(_VERBS.split())
_ADJECTIVES = (
    "special pending unusual express furious sly careful blithe quick fluffy slow quiet ruthless "
    "thin close dogged daring brave stealthy permanent enticing idle busy regular final ironic "
    "even bold silent"
)
ADJECTIVES = tuple(_ADJECTIVES.split())
