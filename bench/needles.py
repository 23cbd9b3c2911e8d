"""Invented facts of a software project, each with two questions: one in its words, one in none of them.

Hidden in a real session they stand for what an agent was told once, hours ago. `retrieval.py` checks that
a paraphrase shares no telling word with its fact.
"""

from typing import NamedTuple


class Needle(NamedTuple):
    fact: str
    keyword: str
    """Asks with words of the fact."""
    paraphrase: str
    """Asks for the same with other words."""


NEEDLES = tuple(
    Needle(*each)
    for each in (
        (
            "The nightly export job must finish before 4 am because the warehouse reloads then.",
            "when must the nightly export job finish",
            "by what hour should the scheduled dump be complete",
        ),
        (
            "We keep invoices for eleven years; legal asked for it after the audit.",
            "how long do we keep invoices",
            "retention period of bills",
        ),
        (
            "Never retry a payment call: the gateway charges twice.",
            "may we retry a payment call to the gateway",
            "what happens on repeating a billing request",
        ),
        (
            "The staging database runs in Dublin, production in Oslo.",
            "where does the staging database run",
            "which city hosts our pre-release storage",
        ),
        (
            "Feature flags are read once at boot, so a toggle needs a restart.",
            "when are feature flags read",
            "why does switching an option have no effect until relaunch",
        ),
        (
            "Marta owns the search service; ask her before changing the schema.",
            "who owns the search service",
            "whom to contact about altering the lookup component's tables",
        ),
        (
            "Uploads above 25 megabytes are rejected by the load balancer.",
            "which uploads does the load balancer reject",
            "maximum file size a user can send",
        ),
        (
            "The mobile app caches the profile picture for a week.",
            "how long does the mobile app cache the profile picture",
            "why do phones show an outdated avatar",
        ),
        (
            "Passwords are hashed with argon2; bcrypt is only verified for old accounts.",
            "how are passwords hashed",
            "which algorithm protects login secrets",
        ),
        (
            "The parser drops comments, so a round trip loses them.",
            "does the parser keep comments in a round trip",
            "are annotations preserved when reading and writing back a file",
        ),
        (
            "Prices are stored in cents as integers to avoid rounding.",
            "how are prices stored",
            "representation of money amounts",
        ),
        (
            "The test suite needs a timezone of UTC, otherwise the calendar tests fail.",
            "which timezone does the test suite need",
            "why do date checks break on a developer's laptop in Berlin",
        ),
        (
            "Customer names may be empty for guest checkouts.",
            "can customer names be empty",
            "is it allowed that a buyer without an account is anonymous",
        ),
        (
            "Deploys are frozen from 20 December until the first working day of January.",
            "when are deploys frozen",
            "may I ship a release during the holidays",
        ),
        (
            "The websocket reconnects with jitter of up to thirty seconds.",
            "with what jitter does the websocket reconnect",
            "random delay before the live channel is opened again",
        ),
        (
            "Image thumbnails are made by the worker queue, not by the request.",
            "what makes image thumbnails",
            "where are small previews of photos generated",
        ),
        (
            "The API key of the weather vendor expires every ninety days.",
            "when does the API key of the weather vendor expire",
            "how often must the forecast provider's credentials be rotated",
        ),
        (
            "Log lines longer than a kilobyte are cut by the collector.",
            "which log lines are cut by the collector",
            "why is the tail of big debug output missing",
        ),
        (
            "Usernames are compared without regard to case.",
            "how are usernames compared",
            "do capital letters matter when signing in",
        ),
        (
            "The cron container has no network access, so it reads from the volume.",
            "does the cron container have network access",
            "can periodic tasks reach the internet",
        ),
        (
            "We chose SQLite for the agent because it must work offline.",
            "why did we choose SQLite for the agent",
            "reason for the embedded database engine",
        ),
        (
            "The French translation is maintained by volunteers and lags a version behind.",
            "who maintains the French translation",
            "why is the Parisian localisation outdated",
        ),
        (
            "Deleting a project only hides it; the purge runs after fourteen days.",
            "when does the purge of a deleted project run",
            "how long can a removed workspace be recovered",
        ),
        (
            "Rate limits count per organisation, not per user.",
            "do rate limits count per user or per organisation",
            "does throttling apply to each person or to the whole company",
        ),
        (
            "The compiler warns about unused imports but the build ignores it.",
            "what does the build do about unused imports",
            "are leftover module references fatal",
        ),
        (
            "Emails go out through the relay in batches of two hundred.",
            "in what batches do emails go out through the relay",
            "how many newsletters are sent together",
        ),
        (
            "Session cookies are strict, which breaks the embedded widget.",
            "what do strict session cookies break",
            "why is the iframe on partner sites logged out",
        ),
        (
            "The checksum of a package is verified twice, on download and on install.",
            "when is the checksum of a package verified",
            "how do we detect a tampered archive",
        ),
        (
            "Graphs are drawn on the server because the tablet is too slow.",
            "where are graphs drawn",
            "who renders charts for weak hardware",
        ),
        (
            "The orders table is partitioned by month since March.",
            "how is the orders table partitioned",
            "layout used to split purchases on disk",
        ),
        (
            "Backups are encrypted with a key that only operations holds.",
            "who holds the key of the encrypted backups",
            "which team is able to restore the snapshots",
        ),
        (
            "The linter config lives in the monorepo root, not in each package.",
            "where does the linter config live",
            "location of code style rules",
        ),
        (
            "A failed migration leaves the lock row behind; delete it by hand.",
            "what does a failed migration leave behind",
            "manual cleanup after a schema upgrade crashed",
        ),
        (
            "The beta users are in the canary ring, about three percent of traffic.",
            "how much traffic is in the canary ring",
            "what portion of people gets early releases",
        ),
        (
            "Search results are limited to a thousand because deep paging kills the cluster.",
            "why are search results limited to a thousand",
            "reason one cannot scroll endlessly through hits",
        ),
        (
            "The printer driver needs the label width in dots, not millimetres.",
            "in what unit does the printer driver need the label width",
            "which measure to use for sticker sizes",
        ),
        (
            "Audio files are transcoded to opus at 48 kilobits.",
            "to what are audio files transcoded",
            "which sound codec do recordings end up in",
        ),
        (
            "The admin panel is reachable over the VPN only.",
            "how is the admin panel reachable",
            "can I open the management console from home without a tunnel",
        ),
        (
            "Webhook deliveries are signed with the tenant's secret and expire after five minutes.",
            "how are webhook deliveries signed",
            "authenticity check of outgoing notifications to subscribers",
        ),
        (
            "The coffee machine on the second floor doubles as the build status light.",
            "what doubles as the build status light",
            "gadget in the kitchen that shows whether CI is green",
        ),
    )
)
