// SPDX-License-Identifier: Apache-2.0

package explain

// The codes of findings that plugins make.
const (
	// OtherNetwork: a network that the guest is not in knows the name.
	OtherNetwork = "other-network"
	// Upstream: an upstream does not answer.
	Upstream = "upstream"
	// Loop: a server that is asked asks the same question here.
	Loop = "loop"
	// SearchDomain: the network knows the name with a domain behind it, or without its domain.
	SearchDomain = "search-domain"
	// Unreadable: the network has a record of the name, but none with a value that can be read.
	Unreadable = "unreadable"
	// NoSwitch: Northbound has the name in a DNS row to which no switch refers.
	NoSwitch = "no-switch"
	// Northd: Northbound has the name, and ovn-northd has not copied it to Southbound.
	Northd = "northd"
	// Alias: the CNAME records of the name lead nowhere.
	Alias = "alias"
	// Private: the name is private, and no server outside is asked.
	Private = "private"
	// Policy: a rule of a policy zone decides, or an egress policy.
	Policy = "policy"
)
