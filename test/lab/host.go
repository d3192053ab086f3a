// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Host is a network namespace with a name and a folder: a node or a guest.
type Host struct {
	Name string
	Dir  string // logs, and for a node its sockets and databases

	l   *Lab
	ns  *netns
	env []string // beside that of this process
}

func (l *Lab) newHost(name string) (*Host, error) {
	h := &Host{Name: name, Dir: filepath.Join(l.Dir, name), l: l}
	if err := os.MkdirAll(h.Dir, 0o755); err != nil {
		return nil, err
	}
	ns, err := newNetns()
	if err != nil {
		return nil, err
	}
	h.ns = ns
	h.env = []string{
		mark + "=" + l.Dir,
		"OVN_NB_DB=" + l.NB, "OVN_SB_DB=" + l.SB,
	}
	// Interfaces that come later have their addresses at once, and no others
	// than they are given.
	if err := h.sysctl6("0", "accept_dad", "accept_ra", "router_solicitations"); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return h, h.ip("link set dev lo up")
}

// NetNS is the path of the namespace for nsenter --net=PATH, good as long as
// this process lives.
func (h *Host) NetNS() string { return h.ns.path() }

// Do runs f on a thread inside the namespace: sockets that f opens belong to
// it, wherever they are used later. f must not end its goroutine.
func (h *Host) Do(f func() error) error { return h.ns.do(f) }

func (h *Host) file(name string) string { return filepath.Join(h.Dir, name) }

func (h *Host) command(env, argv []string) (*exec.Cmd, error) {
	return h.commandContext(context.Background(), env, argv)
}

func (h *Host) commandContext(ctx context.Context, env, argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command given")
	}
	if h.l.closed.Load() {
		return nil, errClosed
	}
	path, err := program(argv[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Env = append(append(os.Environ(), h.env...), env...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
	return cmd, nil
}

// Exec runs a command in the namespace and returns its standard output; the
// error carries its standard error.
func (h *Host) Exec(ctx context.Context, argv ...string) (string, error) {
	return h.run(ctx, nil, argv...)
}

func (h *Host) run(ctx context.Context, stdin io.Reader, argv ...string) (string, error) {
	cmd, err := h.commandContext(ctx, nil, argv)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := spawn(h.ns, cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return stdout.String(), fmt.Errorf("%s: %s: %w: %s", h.Name, strings.Join(argv, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// must is Exec for the tools of the lab: they have to succeed.
func (h *Host) must(argv ...string) string {
	h.l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := h.Exec(ctx, argv...)
	if err != nil {
		h.l.t.Fatalf("%v", err)
	}
	return strings.TrimRight(out, "\n")
}

// ip gives lines to ip(8).
func (h *Host) ip(lines ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := h.run(ctx, strings.NewReader(strings.Join(lines, "\n")+"\n"), "ip", "-batch", "-")
	if err != nil {
		return fmt.Errorf("%q: %w", lines, err)
	}
	return nil
}

// sysctl6 gives IPv6 settings a value for the interfaces to come. /proc/sys
// shows the reader's namespace. A kernel without IPv6 has none of it.
func (h *Host) sysctl6(value string, names ...string) error {
	return h.Do(func() error {
		for _, name := range names {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/default/"+name, []byte(value), 0o644)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// Dial connects from inside the namespace; the address must be numeric.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return within(h, func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) })
}

// ListenPacket opens a datagram socket inside the namespace.
func (h *Host) ListenPacket(network, address string) (net.PacketConn, error) {
	return within(h, func() (net.PacketConn, error) { return net.ListenPacket(network, address) })
}

// Listen opens a stream listener inside the namespace.
func (h *Host) Listen(network, address string) (net.Listener, error) {
	return within(h, func() (net.Listener, error) { return net.Listen(network, address) })
}

// within runs open as [Host.Do] does and returns what it has opened.
func within[T any](h *Host, open func() (T, error)) (opened T, err error) {
	err = h.Do(func() (err error) {
		opened, err = open()
		return err
	})
	return opened, err
}

// AcceptTCP accepts connections to an IPv4 address inside the namespace until the lab ends, and ends each at once.
func (h *Host) AcceptTCP(address string) {
	h.l.t.Helper()
	listener, err := h.Listen("tcp4", address)
	if err != nil {
		h.l.t.Fatalf("%s: %v", h.Name, err)
	}
	h.l.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
}

// HTTPGet fetches a URL with a numeric host from inside the namespace and
// returns status and body.
func (h *Host) HTTPGet(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	tr := &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// WaitHTTP fetches a URL until it answers with the status.
func (h *Host) WaitHTTP(ctx context.Context, url string, status int) error {
	return Poll(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		got, body, err := h.HTTPGet(ctx, url)
		if err != nil {
			return err
		}
		if got != status {
			return fmt.Errorf("%s: status %d, want %d: %s", url, got, status, body)
		}
		return nil
	})
}
