// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// ceilingConn is the connection of a program that measures a ceiling.
type ceilingConn struct {
	*openflow.Conn
	// service is what is punted to it.
	service placement.Service
	// back are the encoded actions of a packet-out through the port that the query came from.
	back []byte
}

// connectCeiling connects to the management socket of a bridge. id is the controller id and the cookie
// of the flows.
func connectCeiling(socket string, id uint16) (*ceilingConn, error) {
	nc, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	conn, err := openflow.NewConn(context.Background(), nc, openflow.Options{ControllerID: id})
	if err != nil {
		return nil, err
	}
	back := openflow.AppendActions(nil, conn.Version(), openflow.Output{Port: openflow.PortInPort})
	service := placement.Service{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort(resolver + ":53")}, ControllerID: id, Cookie: uint64(id),
	}
	return &ceilingConn{conn, service, back}, nil
}

// hold has the flows of a guest in the switch until SIGTERM, or until what serves has ended, whose error
// it returns.
func (c *ceilingConn) hold(at placement.Pipeline, guest placement.Key, served <-chan error) error {
	private, lease := c.service.Private(at)
	flows := slices.Concat(private, []openflow.FlowMod{lease}, c.service.OfGuest(at, &placement.Guest{Key: guest}, 0))
	if err := c.Apply(context.Background(), flows); err != nil {
		return err
	}
	fmt.Println("flows are in place")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	select {
	case err := <-served:
		return err
	case <-end:
	}
	slices.Reverse(flows) // nothing leads to a table that is empty
	for i := range flows {
		flows[i].Command, flows[i].CookieMask, flows[i].Actions = openflow.DeleteStrict, ^uint64(0), nil
	}
	return c.Apply(context.Background(), flows)
}
