// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

const maxFlowSearch = 2 * time.Second

func parseFlowKey(parameters url.Values) (k ovn.FlowKey, err error) {
	network, err := ovsdb.ParseUUID(parameters.Get("network"))
	if err != nil {
		return k, badRequest("network %w: expected the UUID of a logical switch", err)
	}
	k.Network = origin.Network(network)
	for _, p := range []struct {
		name string
		bits int
		set  func(uint64)
	}{
		{"table", 8, func(n uint64) { k.Table = int(n) }},
		{"priority", 16, func(n uint64) { k.Priority = int(n) }},
		{"cookie", 32, func(n uint64) { k.Cookie = uint32(n) }},
	} {
		n, err := strconv.ParseUint(parameters.Get(p.name), 0, p.bits)
		if err != nil {
			return k, badRequest("%s %.80q: expected a number of %d bits", p.name, parameters.Get(p.name), p.bits)
		}
		p.set(n)
	}
	return k, nil
}

// logicalFlow answers api.PathLogicalFlow.
func (a *answers) logicalFlow(ctx context.Context, parameters url.Values) (any, error) {
	k, err := parseFlowKey(parameters)
	if err != nil {
		return nil, err
	}
	b := a.bridges.Get(parameters.Get("bridge"))
	if b == nil || b.Server() == nil || b.Server().Names() == nil {
		return nil, control.NotFound("bridge %.80q: expected one that is served, with databases", parameters.Get("bridge"))
	}
	ctx, cancel := context.WithTimeout(ctx, maxFlowSearch)
	defer cancel()
	f, found, err := b.Server().Names().FindFlow(ctx, k)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, control.NotFound("cookie %#x: Southbound has no logical flow of this cookie and priority in table %d of the switch", k.Cookie, k.Table)
	}
	return &api.LogicalFlow{Row: f.Row.String(), Stage: f.Stage, Hint: f.Hint, Match: f.Match, Actions: f.Actions}, nil
}
