// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// order is a line that a program of simulated clients reads, answer one that it writes.
type order struct {
	Do   string
	ID   int    // of what is expected
	Node int    // whose
	Port int    // of a claim
	Name string // of a port, or of a record
	// Switch and Address are of a record.
	Switch  int
	Address string
}

type answer struct {
	// Seconds has for each client how long it took.
	Seconds []float64
	// Lost is how many clients have had fewer guests than they should.
	Lost int
	// Shown has, for each order that expects something, when it was in a snapshot, in Unix
	// nanoseconds, Missing how often it was not.
	Shown   map[int][]int64
	Missing int
	// Changes is how often the clients have changed their conditions.
	Changes int64
}

// clients is a program of simulated clients.
type clients struct {
	b     *bench
	pid   int
	count int
	cmd   *exec.Cmd
	in    io.WriteCloser
	w     *json.Encoder
	r     *json.Decoder
}

// startClients starts a program for count nodes.
func (c *cloud) startClients(program string, count int, sockets ...string) *clients {
	p := &clients{b: c.b, count: count}
	var out io.Reader
	p.cmd, p.in, out = c.startProgram(append([]string{program, c.size.argument(), strconv.Itoa(count), c.lab.Dir}, sockets...)...)
	// It ends where its input does.
	c.b.t.Cleanup(p.end)
	p.pid = p.cmd.Process.Pid
	p.w, p.r = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	return p
}

// startProgram starts this program as one of its own, with pipes to its input and from its output.
func (c *cloud) startProgram(args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	self, err := os.Executable()
	if err != nil {
		c.b.t.Fatalf("%v", err)
	}
	cmd = exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	if err := cmd.Start(); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	return cmd, in, out
}

func (p *clients) tell(o order) {
	if err := p.w.Encode(o); err != nil {
		p.b.t.Fatalf("simulated clients: %v", err)
	}
}

func (p *clients) ask(do string) (a answer) {
	p.tell(order{Do: do})
	if err := p.r.Decode(&a); err != nil {
		p.b.t.Fatalf("simulated clients: %s: %v", do, err)
	}
	return a
}

func (p *clients) end() {
	if p.cmd == nil {
		return
	}
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// serveOrders reads the arguments of a program of simulated clients, and gives each order to
// do, until its input ends.
func serveOrders(args []string, start func(l *cloudLayout, nodes []int, dir string, sockets []string) (do func(order) *answer, err error)) error {
	l, err := parseLayout(args[0])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	do, err := start(l, l.chosen(count), args[2], slices.Clone(args[3:]))
	if err != nil {
		return err
	}
	r, w := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := r.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if a := do(o); a != nil {
			if err := w.Encode(a); err != nil {
				return err
			}
		}
	}
}
