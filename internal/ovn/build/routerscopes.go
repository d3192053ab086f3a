// SPDX-License-Identifier: Apache-2.0

package build

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

type ScopeInputs struct {
	Graph   topology.Graph
	Covered topology.Covered
	Changed map[origin.Network]bool
	Rowless map[origin.Network]string
}

// BuildScopes sets the router scopes of the next snapshot, which has its networks already.
func (c *Components) BuildScopes(in *ScopeInputs, prev *ovn.Snapshot, next *ovn.Editor) {
	if !c.IsUsed() {
		next.ClearScopes()
		return
	}
	b := scopeBuilder{next, next.EditScopes()}
	gone, found := c.update(in.Graph, in.Covered)
	changed := make(map[*component][]origin.Network)
	for id := range in.Changed {
		of := c.ofNetwork(in.Graph, id)
		if of == nil {
			b.scopes.Remove(id)
		} else if _, ok := found[of]; !ok {
			changed[of] = append(changed[of], id)
		}
	}
	before := make(map[origin.Network]*component)
	for of := range gone {
		for _, id := range of.networks {
			before[id] = of
			if c.ofNetwork(in.Graph, id) == nil {
				b.scopes.Remove(id)
			}
		}
		if len(of.networks) > 0 {
			b.scopes.RemoveIndex(of.networks[0])
		}
	}
	c.setRowless(in.Rowless, prev, b.scopes)
	for of := range found {
		b.setAll(of, of.reusableIndex(before))
	}
	for of, ids := range changed {
		b.set(of, ids)
	}
	next.SetScopes(b.scopes)
}

// A rowless network keeps its scope, or has a scope alone, as no rows show its neighbours.
func (c *Components) setRowless(rowless map[origin.Network]string, prev *ovn.Snapshot, scopes ovn.ScopesEditor) {
	for id := range c.rowless {
		if _, ok := rowless[id]; !ok {
			scopes.RemoveIndex(id)
			delete(c.rowless, id)
		}
	}
	for id := range rowless {
		if c.rowless == nil {
			c.rowless = make(map[origin.Network]struct{})
		}
		c.rowless[id] = struct{}{}
		scopes.Set(id, id)
		scopes.SetIndex(id, prev.RouterScope(id).Union())
	}
}

type scopeBuilder struct {
	next   *ovn.Editor
	scopes ovn.ScopesEditor
}

func (b scopeBuilder) setAll(c *component, base *names.Union) {
	if len(c.networks) == 0 {
		return
	}
	was := make(map[origin.Network]*names.Directory)
	edit := base.Edit()
	if base != nil {
		for id, d := range base.All() {
			was[id] = d
			if _, ok := slices.BinarySearchFunc(c.networks, origin.Network(id), origin.Network.Compare); !ok {
				edit.Remove(id)
			}
		}
	}
	for _, id := range c.networks {
		switch n := b.next.Network(id); {
		case n == nil:
			edit.Remove(id)
			b.scopes.Remove(id)
		case was[id] != &n.Directory:
			edit.Set(id, &n.Directory)
		}
	}
	c.index, c.scoped = edit.Done(), false
	b.setScopes(c, c.networks)
}

func (b scopeBuilder) set(c *component, changed []origin.Network) {
	edit := c.index.Edit()
	for _, id := range changed {
		if n := b.next.Network(id); n != nil {
			edit.Set(id, &n.Directory)
		} else {
			edit.Remove(id)
			b.scopes.Remove(id)
		}
	}
	c.index = edit.Done()
	b.setScopes(c, changed)
}

// setScopes sets the router scopes of changed networks, or of all once the component is closed and indexed. A
// network keeps its scope while another network is about to join.
func (b scopeBuilder) setScopes(c *component, changed []origin.Network) {
	first, complete := c.networks[0], c.closed && c.index.Len() == len(c.networks)
	b.scopes.SetIndex(first, c.index)
	if complete && !c.scoped {
		changed = c.networks
	}
	c.scoped = complete
	for _, id := range changed {
		if b.next.Network(id) == nil {
			continue
		}
		if was, ok := b.scopes.Get(id); ok && was != first || !ok && complete {
			b.scopes.Set(id, first)
		}
	}
}
