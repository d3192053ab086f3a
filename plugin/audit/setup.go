// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/auditlog"
	"github.com/puntdns/puntdns/internal/corefile"
)

func init() { plugin.Register(name, setup) }

var defaultConfig = auditlog.Config{Queue: 16 << 20, Rotation: auditlog.Rotation{Size: 100 << 20, Keep: 10}}

type handlersKey struct{}

// setup parses; OnStartup opens the file. internal/lifecycle/reload.go shows when callbacks run.
func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	others, _ := c.Get(handlersKey{}).([]*Handler)
	if err := h.agree(others); err != nil {
		return plugin.Error(name, err)
	}
	c.Set(handlersKey{}, append(others, h))
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	c.OnStartup(func() error {
		corefile.OnFailedStart(h.close)
		return h.open()
	})
	c.OnShutdown(h.close)
	return nil
}

// Handlers may share a target.
func (h *Handler) open() (err error) {
	if h.lease, err = auditlog.Acquire(h.target, h.config, log); err != nil {
		return fmt.Errorf("%s - %s: %w", h.directive.At, h.directive, err)
	}
	return nil
}

// The error is always nil.
func (h *Handler) close() error {
	if h.lease != nil {
		h.lease.Release()
	}
	return nil
}

// All blocks of a target share its properties.
var sinkProperties = []string{"rotate", "keep", "queue"}

func (h *Handler) saysOfTarget() bool {
	for _, p := range sinkProperties {
		if h.directive.Gives(p) {
			return true
		}
	}
	return false
}

// agree copies a target's properties to blocks without any. Different properties are an error.
func (h *Handler) agree(others []*Handler) error {
	for _, o := range others {
		if o.target != h.target {
			continue
		}
		switch {
		case !h.saysOfTarget():
			h.config = o.config
		case !o.saysOfTarget():
			o.config = h.config
		case !reflect.DeepEqual(o.config, h.config):
			return fmt.Errorf("%s - %s: other properties of this target than at %s, expected the same %s, or none",
				h.directive.At, h.directive, o.directive.At, strings.Join(sinkProperties, ", "))
		}
	}
	return nil
}

// Check returns the errors of a start for one directive. It creates no file.
func Check(c *caddy.Controller, _ func(directive string) bool) error {
	h, err := parse(c)
	if err == nil {
		if err = h.target.Check(); err != nil {
			err = fmt.Errorf("%s - %s: %w", h.directive.At, h.directive, err)
		}
	}
	if err != nil {
		return plugin.Error(name, err)
	}
	return nil
}

func parse(c *caddy.Controller) (h *Handler, err error) {
	h = &Handler{config: defaultConfig}
	if h.fields, err = parseFields([]string{"default"}); err != nil {
		return nil, err
	}
	r := &h.config.Rotation
	h.directive, err = corefile.Read(c, func(words []string) error {
		target, err := corefile.One(words, auditlog.Forms)
		if err == nil {
			h.target, err = auditlog.ParseTarget(target)
		}
		return err
	}, map[string]corefile.Parser{
		"fields": func(words []string) (err error) {
			h.fields, err = parseFields(words)
			h.wantsRecords = slices.Contains(words, "records")
			return err
		},
		"rotate": func(words []string) (err error) {
			r.Size, r.Age, err = parseRotate(words)
			return err
		},
		"keep": func(words []string) (err error) {
			r.Keep, r.KeepAge, err = parseKeep(words)
			return err
		},
		"queue": func(words []string) error {
			word, err := corefile.One(words, "a size from 64KiB to 1GiB")
			if err != nil {
				return err
			}
			h.config.Queue, err = corefile.ParseSize(word)
			if err != nil || h.config.Queue < 64<<10 || h.config.Queue > 1<<30 {
				return fmt.Errorf("%q: expected a size from 64KiB to 1GiB", word)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if h.target.Network != "file" {
		for _, p := range []string{"rotate", "keep"} {
			if h.directive.Gives(p) {
				return nil, h.directive.Errorf(p, "%s is a socket; expected a file", h.target)
			}
		}
	}
	if r.Size == 0 && r.Age == 0 && h.directive.Gives("keep") {
		return nil, h.directive.Errorf("keep", "somebody else rotates the file; expected no keep beside rotate off")
	}
	return h, nil
}

// parseRotate reads SIZE, AGE, both, or off.
func parseRotate(words []string) (size int64, age time.Duration, err error) {
	const want = "expected off, a size from 64KiB, an age from 1m, or both"
	if len(words) == 1 && words[0] == "off" {
		return 0, 0, nil
	}
	for _, word := range words {
		if s, err := corefile.ParseSize(word); err == nil && s >= 64<<10 && size == 0 {
			size = s
		} else if d, err := parseAge(word); err == nil && d >= time.Minute && age == 0 {
			age = d
		} else {
			return 0, 0, fmt.Errorf("%q: %s", words, want)
		}
	}
	if len(words) == 0 {
		return 0, 0, errors.New(want)
	}
	return size, age, nil
}

// parseKeep reads N or all, and an optional AGE. n is -1 for all.
func parseKeep(words []string) (n int, age time.Duration, err error) {
	const want = "expected the number of old files, or all, and how old they may become, from 1m"
	if len(words) < 1 || len(words) > 2 {
		return 0, 0, fmt.Errorf("%q: %s", words, want)
	}
	if n = -1; words[0] != "all" {
		n, err = strconv.Atoi(words[0])
		if err != nil || n < 0 {
			return 0, 0, fmt.Errorf("%q: %s", words, want)
		}
	}
	if len(words) == 2 {
		age, err = parseAge(words[1])
		if err != nil || age < time.Minute {
			return 0, 0, fmt.Errorf("%q: %s", words, want)
		}
	}
	return n, age, nil
}

// parseAge reads a Go duration, or days such as 30d.
func parseAge(word string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(word, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(word)
}
