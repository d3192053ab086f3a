// SPDX-License-Identifier: Apache-2.0

package api

// Names is what networks know.
type Names struct {
	// Kind is port, switch, name, or empty.
	Of   string `json:"of,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Networks are sorted by name and UUID.
	Networks []NetworkNames `json:"networks"`
}

// NetworkNames is what one network knows.
type NetworkNames struct {
	Switch  string `json:"switch"`
	Network string `json:"network"`
	Domain  string `json:"domain,omitempty"`
	// Count is of all names, Names are the requested ones, sorted.
	Count int    `json:"count"`
	Names []Name `json:"names"`
	// Truncated: Names was cut.
	Truncated bool `json:"truncated,omitempty"`
	// ForwardedZones counts all, Forwards has the requested zones by rank. Both need ovnforward.
	ForwardedZones int       `json:"forwarded_zones"`
	Forwards       []Forward `json:"forwards,omitempty"`
}

// Forward is a zone of external_ids:dns-forward of a switch or router.
type Forward struct {
	Zone string `json:"zone"`
	// Servers have ports, in the order of the row.
	Servers []string `json:"servers"`
	// NamedBy is the row: `switch "red"` or `router "r1"`.
	NamedBy string `json:"named_by"`
}

// Name is one name with all its candidates.
type Name struct {
	Name string `json:"name"`
	// Values are in order of precedence.
	Values []Value `json:"values"`
}

// Value is what one source says of a name.
type Value struct {
	// Source is dns (a row) or port (its hostname).
	Source string `json:"source"`
	// Row is the UUID in Database: OVN_Northbound, which operators edit.
	Row      string `json:"row,omitempty"`
	Database string `json:"database,omitempty"`
	Port     string `json:"port,omitempty"`
	// DomainFrom is dhcp, switch, or corefile (ovnhosts).
	DomainFrom string   `json:"domain_from,omitempty"`
	Addresses  []string `json:"addresses"`
	Targets    []string `json:"targets,omitempty"`
	// Records are as "MX 10 mail.example.", Keys as "dns-mx".
	Records []string `json:"records,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	// Wins: the value is in the answer. Several ports with one hostname win together.
	Wins bool `json:"wins"`
	// Unreadable: the record has no readable value.
	Unreadable bool `json:"unreadable,omitempty"`
	// Derived: by a wildcard, or a reverse name.
	Derived bool `json:"derived,omitempty"`
	// OVNOwned: OVN owns the row.
	OVNOwned bool `json:"ovn_owned,omitempty"`
}
