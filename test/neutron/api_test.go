// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// endpoint is Neutron's API, in the namespace of the lab's node.
const endpoint = "http://127.0.0.1:9696"

// object is a resource of the API.
type object map[string]any

// id is the UUID of an object.
func (o object) id() string { return o.text("id") }

// text is a field that is a string; empty if it is none.
func (o object) text(field string) string {
	s, _ := o[field].(string)
	return s
}

// addresses are those of a port.
func (o object) addresses() (ips []string) {
	list, _ := o["fixed_ips"].([]any)
	for _, one := range list {
		if fields, ok := one.(map[string]any); ok {
			ips = append(ips, fmt.Sprint(fields["ip_address"]))
		}
	}
	return ips
}

// request sends a request to the API, as an administrator of no project, and decodes the
// reply into out unless that is nil.
func (c *cloud) request(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, endpoint+"/v2.0/"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DialContext: c.node.Dial, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, out)
}

// plural is the name of a resource's collection in a path.
func plural(kind string) string {
	return strings.ReplaceAll(kind, "_", "-") + "s"
}

// one sends a request about one object and returns what the API has of it.
func (c *cloud) one(t *testing.T, method, kind, path string, fields object) object {
	t.Helper()
	var in any
	if fields != nil {
		in = map[string]object{kind: fields}
	}
	out := map[string]object{}
	if err := c.request(within(t, patience), method, path, in, &out); err != nil {
		t.Fatal(err)
	}
	return out[kind]
}

func (c *cloud) create(t *testing.T, kind string, fields object) object {
	t.Helper()
	return c.one(t, http.MethodPost, kind, plural(kind), fields)
}

func (c *cloud) update(t *testing.T, kind string, o object, fields object) object {
	t.Helper()
	return c.one(t, http.MethodPut, kind, plural(kind)+"/"+o.id(), fields)
}

func (c *cloud) show(t *testing.T, kind, id string) object {
	t.Helper()
	return c.one(t, http.MethodGet, kind, plural(kind)+"/"+id, nil)
}

func (c *cloud) remove(t *testing.T, kind string, o object) {
	t.Helper()
	if err := c.request(within(t, patience), http.MethodDelete, plural(kind)+"/"+o.id(), nil, nil); err != nil {
		t.Fatal(err)
	}
}

// list returns the objects whose fields are as in filter.
func (c *cloud) list(ctx context.Context, kind string, filter url.Values) ([]object, error) {
	out := map[string][]object{}
	if err := c.request(ctx, http.MethodGet, plural(kind)+"?"+filter.Encode(), nil, &out); err != nil {
		return nil, err
	}
	return out[strings.ReplaceAll(plural(kind), "-", "_")], nil
}

// named returns the one object of a name.
func (c *cloud) named(t *testing.T, kind, name string) object {
	t.Helper()
	found, err := c.list(within(t, patience), kind, url.Values{"name": {name}})
	if err != nil || len(found) != 1 {
		t.Fatalf("%s %s: %v, %v", kind, name, found, err)
	}
	return found[0]
}

// action is a PUT to an object's own verb.
func (c *cloud) action(t *testing.T, kind string, o object, verb string, fields object) {
	t.Helper()
	if err := c.request(within(t, patience), http.MethodPut, plural(kind)+"/"+o.id()+"/"+verb, fields, nil); err != nil {
		t.Fatal(err)
	}
}
