// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// cloudSize is that of a Southbound database for many nodes, see cloudLayout.
type cloudSize struct {
	nodes  int // chassis; each stands for 100 ports and two switches
	flows  int // rows of Logical_Flow for each port
	fewest int // ports bound to the node that has fewest of them
	most   int // and to that which has most
}

const (
	cloudSwitchPorts    = 50 // ports of a switch
	cloudTenantSwitches = 4
	cloudTenantNodes    = 10 // over which the ports of a tenant are spread
	cloudRouterEvery    = 5  // one tenant of so many has a router
)

// cloudLayout is where everything is. It is the same in each process that is given the same size.
type cloudLayout struct {
	cloudSize
	tenants, switches, ports int
	// at has the ports bound to each node, on those of each tenant, free the ports that are bound
	// to none.
	at   [][]int
	free []int
	// node is, for each port, the one that it is bound to, else -1.
	node []int
}

func newCloudLayout(s cloudSize) *cloudLayout {
	l := &cloudLayout{cloudSize: s, tenants: max(1, s.nodes/2)}
	l.switches = l.tenants * cloudTenantSwitches
	l.ports = l.switches * cloudSwitchPorts
	l.at, l.node = make([][]int, s.nodes), make([]int, l.ports)
	for i := range l.node {
		l.node[i] = -1
	}
	ofTenant := cloudTenantSwitches * cloudSwitchPorts
	for t := range l.tenants {
		next := 0
		nodes := l.nodesOfTenant(t)
		share := l.tenants * len(nodes) / s.nodes // tenants of a node
		for _, n := range nodes {
			for range (s.fewest + (s.most-s.fewest)*n/max(1, s.nodes-1)) / max(1, share) {
				if next == ofTenant {
					break
				}
				// Neighbours in number are on different switches.
				p := t*ofTenant + next%cloudTenantSwitches*cloudSwitchPorts + next/cloudTenantSwitches
				next++
				l.node[p] = n
				l.at[n] = append(l.at[n], p)
			}
		}
	}
	for p, n := range l.node {
		if n < 0 {
			l.free = append(l.free, p)
		}
	}
	return l
}

// nodesOfTenant returns the nodes that a tenant's ports are on.
func (l *cloudLayout) nodesOfTenant(t int) (nodes []int) {
	seen := make(map[int]bool)
	for j := range cloudTenantNodes {
		if n := (2*t + 97*j) % l.nodes; !seen[n] {
			seen[n] = true
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (l *cloudLayout) switchOf(port int) int { return port / cloudSwitchPorts }
func (l *cloudLayout) tenantOf(sw int) int   { return sw / cloudTenantSwitches }
func (l *cloudLayout) hasRouter(t int) bool  { return t%cloudRouterEvery == 0 }

// chosen returns the nodes that n clients are for: spread over all.
func (l *cloudLayout) chosen(n int) (nodes []int) {
	for i := range n {
		nodes = append(nodes, i*l.nodes/n)
	}
	return nodes
}

// Names and rows.
func cloudNode(n int) string { return fmt.Sprintf("node%d", n) }
func cloudPort(p int) string { return fmt.Sprintf("port%d", p) }
func cloudNetwork(sw int) string {
	return fmt.Sprintf("11111111-1111-4111-8111-%012d", sw)
}

// cloudUUID is that of row number i of one kind.
func cloudUUID(kind cloudKind, i int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(kind)<<24|uint32(i)*2654435761&0xffffff, i)
}

// cloudKind is a kind of rows.
type cloudKind uint8

const (
	kChassis cloudKind = iota + 1
	kEncap
	kPrivate
	kSwitch
	kRouter
	kPort
	kSwitchEnd // the ports that join a switch and a router
	kRouterEnd
	kDNS
	kFlow
	kGroupFlow
	kGroup
	kFlood
	kGlobal
)
