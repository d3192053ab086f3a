// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// ports has the ports of a network, indexed. Networks of successive snapshots share it
// where only their DNS rows differ. It is immutable.
type ports struct {
	all    []*Port
	guests []*Port          // those bound to the local chassis, and those that are kept
	byKey  map[uint64]*Port // by pipelineKey
	// datapaths are the tunnel keys of the switch: one, except while northd
	// replaces its Datapath_Binding.
	datapaths []uint32
	owners    map[netip.Addr]struct{} // addresses of all ports, guests or not
	metadata  bool                    // a port serves the metadata addresses, see Network.Owns
	hosts     *names.Hosts
}

// pipelineKey joins metadata and register 14.
func pipelineKey(datapath, port uint32) uint64 { return uint64(datapath)<<32 | uint64(port) }

// logicalPort is a port as one database or both have it.
type logicalPort struct {
	name, kind       string // kind is that of effectiveKind
	datapath, key    uint32 // tunnel keys, 0 without Southbound
	parent           string // port of a container's VM
	tag              uint16 // VLAN of a container
	hostname, domain string // canonical, "" for none
	addresses        []netip.Addr
	local            bool // it is a guest of the local chassis
	disabled         bool // Logical_Switch_Port.enabled is false
}

// isGuest reports whether a port has names and may ask: a VIF, a container or a
// virtual port does, a router, localnet or localport does not.
func isGuest(kind string) bool { return kind == "" || kind == "virtual" }

// Types of ports, of ovn-sb(5) and ovn-nb(5).
const (
	kindRouter    = "router" // Northbound only
	kindLocalnet  = "localnet"
	kindLocalport = "localport"
	// kindService is no type of OVN's: it is that of a VIF which Neutron has plugged
	// for a service of its own, the DHCP agent's for bare metal among them.
	kindService = "neutron-service"
)

const (
	// ownerKey is where ML2/OVN writes the Neutron port's device_owner
	// (neutron's common/ovn/constants.py, OVN_DEVICE_OWNER_EXT_ID_KEY).
	ownerKey = "neutron:device_owner"
	// ownerNetwork begins the owners that serve a network: network:dhcp,
	// network:router_interface and the like (neutron-lib, constants.py).
	ownerNetwork = "network:"
)

// effectiveKind is the kind of a port of that type and owner.
func effectiveKind(kind, owner string) string {
	if isGuest(kind) && strings.HasPrefix(owner, ownerNetwork) {
		return kindService
	}
	return kind
}

// portsBuilder collects the ports of one network.
type portsBuilder struct {
	network *Network
	out     *ports
	hosts   *names.HostsBuilder
}

func newPortsBuilder(n *Network) *portsBuilder {
	return &portsBuilder{network: n, hosts: names.NewHostsBuilder(), out: &ports{
		byKey: make(map[uint64]*Port), owners: make(map[netip.Addr]struct{}),
	}}
}

func (b *portsBuilder) add(l logicalPort) {
	for _, a := range l.addresses {
		b.out.owners[a] = struct{}{}
	}
	if l.kind == kindLocalport || l.kind == kindService {
		b.out.metadata = true
	}
	if !isGuest(l.kind) {
		return
	}
	p := &Port{
		Name: l.name, Type: l.kind,
		Network: b.network.ID, SwitchName: b.network.Name,
		DatapathKey: l.datapath, Key: l.key,
		Parent: l.parent, Tag: l.tag,
		Hostname: l.hostname, Domain: l.domain, Local: l.local,
		Addresses: l.addresses,
	}
	b.out.all = append(b.out.all, p)
	if l.local {
		b.out.guests = append(b.out.guests, p)
	}
	if l.key != 0 {
		b.out.byKey[pipelineKey(l.datapath, l.key)] = p
	}
	// A disabled port has no name: no packet gets to it.
	if l.disabled || l.hostname == "" || len(l.addresses) == 0 {
		return
	}
	b.hosts.Add(l.hostname, l.domain, l.addresses)
}

func (b *portsBuilder) done() *ports {
	b.out.hosts = b.hosts.Done()
	return b.out
}
