// SPDX-License-Identifier: Apache-2.0

package api

// Names is what networks know.
type Names struct {
	// Of is the word of the request, and Kind its meaning: port, switch, name, or empty without a word.
	Of   string `json:"of,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Networks are sorted by name and UUID. Of a name, they are those that know it.
	Networks []NetworkNames `json:"networks"`
}

// NetworkNames is what one network knows.
type NetworkNames struct {
	Switch  string `json:"switch"`
	Network string `json:"network"`
	// Domain is the domain of the switch, left out without one.
	Domain string `json:"domain,omitempty"`
	// Count is how many names the network has; Names has those that were asked for, sorted.
	Count int    `json:"count"`
	Names []Name `json:"names"`
	// Truncated is set where there are more names than were asked for at most.
	Truncated bool `json:"truncated,omitempty"`
	// ForwardedZones counts the zones that the network forwards to its own DNS servers. Forwards has the
	// requested zones by rank: for a name the zone that takes it. They are known if ovnforward is in the
	// Corefile.
	ForwardedZones int       `json:"forwarded_zones"`
	Forwards       []Forward `json:"forwards,omitempty"`
}

// Forward is a zone that a network forwards to DNS servers which it names in OVN, by
// external_ids:dns-forward of its switch or of a router. Names that the network has by itself are not
// forwarded.
type Forward struct {
	Zone string `json:"zone"`
	// Servers are addresses with ports, in the order of the row.
	Servers []string `json:"servers"`
	// NamedBy says which row it is: `switch "red"` or `router "r1"`.
	NamedBy string `json:"named_by"`
}

// Name is one name, and all that a network knows of it.
type Name struct {
	Name string `json:"name"`
	// Values are in the order in which they are looked at. The one that wins is the answer.
	Values []Value `json:"values"`
}

// Value is what one source says of a name.
type Value struct {
	// Source is dns for a row of the table DNS, and port for the hostname of a port.
	Source string `json:"source"`
	// Row is the UUID of the DNS row in Database. That is OVN_Northbound, whose rows operators edit: ovn-northd
	// makes the rows of OVN_Southbound.
	Row      string `json:"row,omitempty"`
	Database string `json:"database,omitempty"`
	// Port is the name of the port.
	Port string `json:"port,omitempty"`
	// DomainFrom says, of a port's name with a domain, what that is from: dhcp for its DHCP
	// options, switch for the network, corefile for ovnhosts.
	DomainFrom string   `json:"domain_from,omitempty"`
	Addresses  []string `json:"addresses"`
	// Targets are the targets of a reverse name.
	Targets []string `json:"targets,omitempty"`
	// Records are the records of other types, as "MX 10 mail.example.", and Keys how their keys in the
	// external_ids of the row begin, such as "dns-mx".
	Records []string `json:"records,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	// Wins is set for a candidate that is in the answer. Several ports with one hostname win together.
	Wins bool `json:"wins"`
	// Unreadable is set for a record without a value that can be read.
	Unreadable bool `json:"unreadable,omitempty"`
	// Derived is set where a wildcard covers the name, or it is the reverse name of an address.
	Derived bool `json:"derived,omitempty"`
	// OVNOwned is set for a record of a row that OVN owns.
	OVNOwned bool `json:"ovn_owned,omitempty"`
}
