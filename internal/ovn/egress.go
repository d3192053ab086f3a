// SPDX-License-Identifier: Apache-2.0

package ovn

// EgressKey of external_ids of a Logical_Switch, Logical_Switch_Port or Port_Group has entries of an egress policy with spaces
// or commas between them. It applies to the ports of the switch, the port, or the ports of the group. The key is puntdns' own.
const EgressKey = "dns-egress"
