"""The tables of generate.py: data only.

A column is written NAME or NAME:POOL; the pool (by default the column's own name) determines the
values of the column. A table with a parent has an additional column, the key of its parent: books
of authors have author_id, which references authors.id.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Text values. `groups`: whether grouping rows by them is sensible (a genre, not a title)."""

    values: tuple[str, ...]
    groups: bool = True


@dataclass(frozen=True)
class Numbers:
    """low, low + step, ..., high. `sums`: whether a total is sensible (a price, not a rating)."""

    low: float
    high: float
    step: float
    sums: bool = True
    year: bool = False


@dataclass(frozen=True)
class Table:
    """`name` is plural and the table's name in SQL; `one` is a single row in a question."""

    name: str
    one: str
    columns: dict[str, Words | Numbers]
    parent: str = ""


def categories(text: str) -> Words:
    return Words(tuple(text.split("|")))


def labels(text: str) -> Words:
    return Words(tuple(text.split("|")), groups=False)


def years(low: int, high: int) -> Numbers:
    return Numbers(low, high, 1, sums=False, year=True)


def scores(low: float, high: float, step: float) -> Numbers:
    return Numbers(low, high, step, sums=False)


POOLS = {
    # Shared by many tables.
    "person": labels("Anna Lee|Omar Diaz|Ruth Klein|Ivan Petrov|Mei Chen|Paul Stone|Sara Novak|"
                     "Jack Hill|Nina Rossi|Tom Baker|Lena Fischer|Hugo Martin"),
    "city": categories("Lima|Oslo|Boston|New York|Cairo|Madrid|Tokyo|Denver|Cape Town|Vienna"),
    "country": categories("France|Brazil|Japan|Kenya|Canada|South Korea|Norway|India|Chile"),
    "color": categories("red|blue|green|black|white|dark grey"),
    "price": Numbers(5, 900, 5),
    "cost": Numbers(20, 4000, 20),
    "age": scores(18, 70, 1),
    "weight": Numbers(2, 300, 1),
    "rating": scores(1, 5, 0.5),
    "score": scores(10, 100, 1),
    "year": years(1950, 2023),
    "status": categories("open|closed|pending|active|late"),
    "salary": Numbers(20000, 120000, 1000),
    "size": categories("small|medium|large|extra large"),
    "stock": Numbers(0, 500, 10),
    "amount": Numbers(10, 5000, 10),
    "duration": Numbers(5, 240, 5),
    "distance": Numbers(2, 900, 1),
    "capacity": Numbers(20, 2000, 20),
    "population": Numbers(1000, 90000, 1000),
    "material": categories("oak|steel|glass|cotton|leather"),
    "language": categories("Spanish|Hindi|French|Arabic|Italian"),
    "level": scores(1, 12, 1),
    # Used by one or two tables of the training set.
    "title": labels("Night Train|Silver Road|The Last Garden|Blue Morning|Winter Song|Lost Harbor"),
    "genre": categories("fantasy|crime|poetry|jazz|drama|comedy"),
    "pages": Numbers(60, 900, 10),
    "birth_year": years(1900, 2005),
    "department": categories("sales|legal|design|support|research"),
    "job": categories("nurse|driver|cook|engineer|clerk"),
    "budget": Numbers(1000, 90000, 1000),
    "floor": scores(1, 30, 1),
    "director": labels("Agnes Moor|John Park|Rosa Vega|Ken Ito|Clara Holm"),
    "breed": categories("beagle|poodle|husky|pug|collie"),
    "pet": labels("Rex|Bella|Milo|Luna|Shadow|Daisy"),
    "brand": categories("Acme|Nordic|Solaris|Vertex|Blue River"),
    "mileage": Numbers(1000, 200000, 1000),
    "engine": categories("petrol|diesel|electric|hybrid"),
    "device": labels("Alpha One|Pulse|Orbit Mini|Nova Plus|Echo Max"),
    "storage": Numbers(32, 2048, 32),
    "screen_size": scores(4, 17, 0.5),
    "subject": categories("physics|history|biology|music|law"),
    "course": labels("World History|Organic Chemistry|Linear Algebra|Modern Art|Data Systems"),
    "credits": Numbers(1, 12, 1),
    "grade": scores(1, 10, 0.5),
    "dish": labels("Onion Soup|Fish Stew|Apple Pie|Rice Bowl|Lamb Curry"),
    "cuisine": categories("Thai|Greek|Mexican|Turkish|Polish"),
    "calories": Numbers(50, 1200, 10),
    "place": labels("Golden Spoon|River House|Old Mill|Corner Table|Green Door"),
    "seats": Numbers(10, 300, 5),
    "team": labels("Falcons|Red Wolves|City Rangers|Sharks|North Stars"),
    "wins": Numbers(0, 60, 1),
    "goals": Numbers(0, 50, 1),
    "position": categories("keeper|defender|striker|midfielder"),
    "song": labels("Summer Rain|Hold On|Paper Moon|Fire Dance|Slow River"),
    "plays": Numbers(1000, 90000, 500),
    "album": labels("First Light|Deep Water|Open Sky|Neon Hearts|Home Again"),
    "label": categories("Delta Records|Moonbeam|Harvest|Tiny Music"),
    "hotel": labels("Grand Palace|Sea View|Park Inn|Royal Garden|Hill Lodge"),
    "stars": scores(1, 5, 1),
    "rooms": Numbers(1, 400, 1),
    "view": categories("sea|garden|street|mountain"),
    "nights": Numbers(1, 21, 1),
    "product": labels("Desk Lamp|Water Bottle|Wool Scarf|Tea Pot|Garden Hose"),
    "category": categories("kitchen|outdoor|office|toys|sports"),
    "quantity": Numbers(1, 200, 1),
    "payment": categories("cash|card|transfer|voucher"),
    "company": labels("Bright Foods|Stone Works|Apex Trading|Lake Energy|Urban Tools"),
    "industry": categories("retail|mining|farming|banking|media"),
    "employees_count": Numbers(5, 5000, 5),
    "revenue": Numbers(100, 9000, 100),
    "illness": categories("asthma|flu|diabetes|migraine|allergy"),
    "ward": categories("north|south|east|west"),
    "fee": Numbers(10, 800, 10),
    "specialty": categories("surgery|cardiology|pediatrics|radiology"),
    "experience": Numbers(1, 40, 1),
    "bridge": labels("Stone Arch|Iron Gate|Victory|Long Span|Mill Crossing"),
    "length": Numbers(10, 3000, 10),
    "river": labels("Amber|White Fork|Tana|Kora|Big Sandy"),
    "depth": scores(1, 400, 1),
    "mountain": labels("Black Peak|Mount Kerr|Eagle Horn|Sky Tower|Bear Ridge"),
    "height": scores(100, 8000, 50),
    "range": categories("Alps|Andes|Rockies|Atlas|Urals"),
    "star": labels("Vega|Polaris|Altair|Rigel|Mira"),
    "brightness": scores(1, 20, 0.5),
    "constellation": categories("Lyra|Orion|Cygnus|Aquila|Draco"),
    "plant": labels("Snake Plant|Red Maple|Wild Rose|Sweet Basil|Lady Fern"),
    "sunlight": categories("full|partial|shade|indirect"),
    "project": labels("Solar Roof|New Website|Data Lake|Fast Lane|Clean Water"),
    "hours": Numbers(1, 400, 1),
    "priority": categories("low|normal|high|urgent"),
    "ticket": labels("Login Error|Slow Page|Missing Invoice|Broken Link|Wrong Total"),
    "game": labels("Star Miner|Castle Rush|Word Maze|Sky Racer|Dungeon Tale"),
    "platform": categories("console|mobile|desktop|arcade"),
    "downloads": Numbers(100, 90000, 100),
    "painting": labels("Red Field|The Old Bridge|Harbor at Dawn|Two Sisters|Quiet Room"),
    "style": categories("cubist|baroque|abstract|realist"),
    "lesson": labels("First Steps|Deep Breath|Balance|Strong Core|Free Flow"),
    "hall": categories("Main Hall|Blue Room|Studio Two|Roof Stage"),
    "visitors": Numbers(100, 9000, 100),
    "crop": categories("wheat|maize|barley|rice|potato"),
    "area": Numbers(1, 900, 1),
    "soil": categories("clay|sandy|loam|peat"),
    "farm": labels("Sunny Acres|Oak Valley|Long Meadow|Red Barn|Willow Creek"),
    # Used by tables held out for validation.
    "ship": labels("Sea Spirit|Northern Light|Blue Whale|Albatross|Queen Mary"),
    "cargo": categories("coal|grain|cars|timber|oil"),
    "tonnage": Numbers(500, 90000, 500),
    "harbor": labels("Port Royal|East Bay|Fort Point|Long Pier|Salt Cove"),
    "docks": Numbers(2, 60, 1),
    "wine": labels("Casa Roja|Silver Vine|Monte Alto|Chateau Noir|Sunset Hill"),
    "grape": categories("Merlot|Riesling|Malbec|Pinot Noir"),
    "region": categories("Tuscany|Mosel|Rioja|Napa Valley"),
    "vintage": years(1970, 2021),
    "donor": labels("Rosalind Day|Peter Voss|Ella Brandt|Samir Khan|June Abbott"),
    "cause": categories("schools|forests|refugees|shelters"),
    "campaign": labels("Warm Winter|Safe Roads|Open Library|Bright Future"),
    # Used by tables held out for the test.
    "flight": labels("Morning Star|Polar Express|Coast Runner|Night Owl|Sun Chaser"),
    "carrier": categories("Skyways|Polar Air|Jet Nova|Blue Wing"),
    "passengers": Numbers(20, 400, 5),
    "delay": Numbers(0, 180, 5),
    "airport": labels("Hillview|Saint Mark|Bay Field|Union Park|Falcon Gate"),
    "runways": Numbers(1, 8, 1),
    "elevation": scores(5, 2500, 5),
    "animal": labels("Kito|Zara|Big Ben|Nala|Old Joe|Pepper"),
    "species": categories("lion|zebra|otter|snow leopard|panda"),
    "diet": categories("meat|plants|fish|insects"),
    "zoo": labels("Wild Haven|Green Paws|Hidden Forest|Little Safari"),
    "recipe": labels("Lemon Cake|Bean Salad|Corn Bread|Plum Jam|Spicy Noodles"),
    "difficulty": categories("easy|moderate|hard|expert"),
    "servings": Numbers(1, 16, 1),
    "museum": labels("Sea Museum|House of Clocks|Rail Hall|Gallery Nine|Science Dome"),
    "theme": categories("trains|oceans|robots|ancient art"),
    "entry_fee": Numbers(2, 60, 1),
}


def table(name: str, one: str, columns: str, parent: str = "") -> Table:
    pools = {}
    for item in columns.split():
        column, _, pool = item.partition(":")
        pools[column] = POOLS[pool or column]
    return Table(name, one, pools, parent)


TRAIN = (
    table("books", "book", "title genre price pages year", "authors"),
    table("authors", "author", "name:person country birth_year language"),
    table("employees", "employee", "name:person job salary age city", "departments"),
    table("departments", "department", "name:department budget floor city"),
    table("movies", "movie", "title director genre duration rating year", "studios"),
    table("studios", "studio", "name:company city founded:year revenue"),
    table("dogs", "dog", "name:pet breed weight age:level color", "owners"),
    table("owners", "owner", "name:person city age phone_brand:brand"),
    table("cars", "car", "brand color engine mileage price year", "dealers"),
    table("dealers", "dealer", "company city rating sales:revenue"),
    table("phones", "phone", "model:device brand storage screen_size price"),
    table("courses", "course", "title:course subject credits level", "teachers"),
    table("teachers", "teacher", "name:person subject experience salary"),
    table("students", "student", "name:person age grade city country", "schools"),
    table("schools", "school", "name:place city capacity rating"),
    table("dishes", "dish", "name:dish cuisine price calories rating", "restaurants"),
    table("restaurants", "restaurant", "name:place city seats stars"),
    table("players", "player", "name:person position goals age country", "teams"),
    table("teams", "team", "name:team city wins budget"),
    table("songs", "song", "title:song genre duration plays year", "albums"),
    table("albums", "album", "title:album label year price"),
    table("bookings", "booking", "guest:person nights amount status", "hotels"),
    table("hotels", "hotel", "name:hotel city stars rooms view"),
    table("products", "product", "name:product category price stock weight", "suppliers"),
    table("suppliers", "supplier", "company country rating industry"),
    table("orders", "order", "product quantity amount payment status", "customers"),
    table("customers", "customer", "name:person city age points:score"),
    table("companies", "company", "name:company industry employees_count revenue country"),
    table("patients", "patient", "name:person illness age ward weight", "doctors"),
    table("doctors", "doctor", "name:person specialty fee experience"),
    table("bridges", "bridge", "name:bridge material length built:year", "rivers"),
    table("rivers", "river", "name:river country length depth"),
    table("mountains", "mountain", "name:mountain range height country"),
    table("stars", "star", "name:star constellation brightness distance"),
    table("plants", "plant", "name:plant color height:depth sunlight price"),
    table("tasks", "task", "title:ticket priority hours status", "projects"),
    table("projects", "project", "name:project budget department start_year:year"),
    table("games", "game", "title:game platform downloads rating price"),
    table("paintings", "painting", "title:painting style year price:cost", "artists"),
    table("artists", "artist", "name:person country birth_year style"),
    table("concerts", "concert", "band:team hall visitors ticket_price:price year"),
    table("fields", "field", "crop area soil harvest:amount", "farms"),
    table("farms", "farm", "name:farm country area founded:year"),
)

VALID = (
    table("ships", "ship", "name:ship cargo tonnage length built:year", "harbors"),
    table("harbors", "harbor", "name:harbor country docks depth"),
    table("wines", "wine", "label:wine grape region vintage price rating"),
    table("donations", "donation", "donor amount payment year", "campaigns"),
    table("campaigns", "campaign", "name:campaign cause budget start_year:year"),
)

TEST = (
    table("flights", "flight", "name:flight carrier passengers delay price", "airports"),
    table("airports", "airport", "name:airport city runways elevation"),
    table("animals", "animal", "name:animal species diet weight age:level", "zoos"),
    table("zoos", "zoo", "name:zoo city visitors area"),
    table("recipes", "recipe", "title:recipe difficulty servings calories rating"),
    table("museums", "museum", "name:museum theme city entry_fee visitors"),
)
