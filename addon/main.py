"""The target of `mitmdump -s`."""

from openmem_addon.contentview import Inspection
from openmem_addon.drain import Drain
from openmem_addon.proxy import OpenMem
from openmem_addon.webpage import WebPage

addons = [Inspection(), OpenMem(), Drain(), WebPage()]
