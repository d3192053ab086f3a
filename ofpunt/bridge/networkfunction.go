// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/guests"
)

const maxFunctionPorts = 4

// functionPorts returns, by network of guests, some ports of network functions (ovn-nb(5)). A query that an ACL sends
// there is not punted: it returns from the function's other port, where only its source address would name the guest.
func functionPorts(snapshot *ovn.Snapshot) map[string]string {
	all := map[string]string{}
	for p := range snapshot.Guests() {
		n := snapshot.Network(p.Network)
		if n == nil || len(n.FunctionPorts()) == 0 {
			continue
		}
		network := guests.NetworkName{ID: n.ID, Switch: n.Name}.String()
		if _, known := all[network]; known {
			continue
		}
		var names []string
		for _, f := range n.FunctionPorts()[:min(maxFunctionPorts, len(n.FunctionPorts()))] {
			names = append(names, fmt.Sprintf("%q", f.Name))
		}
		all[network] = strings.Join(names, ", ")
	}
	return all
}

func (s *session) reportFunctions() {
	if s.flows.Yielding() {
		return
	}
	now := make(map[string]string, len(s.desired.functions))
	for network := range s.desired.functions {
		now[network] = "" // a change of a network's ports is not logged
	}
	begun, _ := s.bridge.functions.update(now)
	for _, network := range begun {
		log.Infof("Bridge %s: switch %s has ports of network functions (%s): a query that an ACL sends through them is not answered here; "+
			"allow UDP and TCP to port 53 of the resolver addresses by an ACL of a higher priority, which has no network_function_group",
			s.bridge.name, network, s.desired.functions[network])
	}
}
