// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// connectTimeout bounds one query with its connection.
const connectTimeout = 5 * time.Second

// connector is a program of its own that asks a server over TCP, each query by a connection of
// its own, and says how many were answered, and how long they took, in microseconds. Its arguments are the server's address and port, the
// name, how many connections to have at once, and how many in all.
func connector(args []string) error {
	if len(args) != 4 {
		return errors.New("connect: expected SERVER:PORT NAME CONCURRENT ALL")
	}
	at, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("connect: how many at once: %w", err)
	}
	all, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("connect: how many in all: %w", err)
	}
	q, err := new(dns.Msg).SetQuestion(dns.Fqdn(args[1]), dns.TypeA).Pack()
	if err != nil {
		return err
	}
	q = append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	var begun, failed atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	began := time.Now()
	for range at {
		group.Go(func() {
			for buf := make([]byte, 2+dns.MaxMsgSize); begun.Add(1) <= all; {
				asked := time.Now()
				if err := connectOnce(args[0], q, buf); err != nil {
					failed.Add(1)
					continue
				}
				mu.Lock()
				took = append(took, time.Since(asked))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	perSecond := float64(len(took)) / time.Since(began).Seconds()
	slices.Sort(took)
	fmt.Printf("%d answered, %d failed, %.1f per second, median %.1f, p99 %.1f\n", len(took), failed.Load(), perSecond,
		microseconds(quantile(took, .5)), microseconds(quantile(took, .99)))
	return nil
}

// connectOnce asks one query by a connection of its own.
func connectOnce(server string, query, buf []byte) error {
	conn, err := net.DialTimeout("tcp", server, connectTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(connectTimeout)) // fails for a closed connection alone
	if _, err := conn.Write(query); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, buf[2:2+binary.BigEndian.Uint16(buf)])
	return err
}
