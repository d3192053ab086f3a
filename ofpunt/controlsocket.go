// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/chain"
)

// controlPath returns the path of the control socket, empty for none. Servers that name one have
// the same.
func controlPath(servers []*bridge.Server) string {
	for _, s := range servers {
		if s.Options.Control != "" {
			return s.Options.Control
		}
	}
	return ""
}

// checkControl refuses bridges with different control sockets, as a process has one, and a socket
// that can't be opened. One that another process has is not refused here: that may be the process
// which is to take the Corefile, or one that hands over.
func (in *instance) checkControl() error {
	var first *chain.Block
	for _, b := range in.blocks {
		switch {
		case b.Directive.Bridge.Control == "":
		case first == nil:
			first = b
		case b.Directive.Bridge.Control != first.Directive.Bridge.Control:
			return b.Directive.Errorf("control", "unix:%s is not the control socket of ofpunt %s at %s; expected unix:%s, as a process has one, or nothing",
				b.Directive.Bridge.Control, first.Directive.Bridge.Name, first, first.Directive.Bridge.Control)
		}
	}
	if first == nil {
		return nil
	}
	if err := control.Check(first.Directive.Bridge.Control); err != nil {
		return first.Directive.Errorf("control", "%w", err)
	}
	return nil
}

// useControl opens the control socket at a path, and closes the socket before. With an empty path there is
// none. The process stores past queries while it has a socket. wait is the argument of control.Server.Use.
func useControl(path string, wait bool) error {
	if err := control.Process.Use(path, wait, log); err != nil {
		return fmt.Errorf("ofpunt: control: %w", err)
	}
	running.feed.Remember(path != "") // without a socket nobody can ask for past queries
	return nil
}

// tryControl returns an error unless the servers of a reload can have their control socket.
func tryControl(servers []*bridge.Server) error {
	if err := control.Process.Try(controlPath(servers)); err != nil {
		return fmt.Errorf("ofpunt: control: %w", err)
	}
	return nil
}
