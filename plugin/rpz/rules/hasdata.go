// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"

	"github.com/miekg/dns"
)

// hasData reports whether a record has all RDATA fields. Package dns also packs records without RDATA (RFC
// 2136), which are malformed in an answer.
func hasData(rr dns.RR) bool {
	switch rr := rr.(type) { // most rules
	case *dns.CNAME:
		return rr.Target != ""
	case *dns.A:
		return len(rr.A) > 0
	case *dns.AAAA:
		return len(rr.AAAA) > 0
	}
	return !lacksField(reflect.ValueOf(rr).Elem())
}

// lacksField reports an empty field of at least a byte, by struct tags.
func lacksField(rr reflect.Value) bool {
	for i := range rr.NumField() {
		f := rr.Field(i)
		if f.Kind() == reflect.Struct {
			if f.Type() != headerType && lacksField(f) { // HTTPS embeds SVCB
				return true
			}
			continue
		}
		switch rr.Type().Field(i).Tag.Get("dns") {
		case "domain-name", "cdomain-name":
			if f.Kind() == reflect.String && f.Len() == 0 {
				return true
			}
		case "a", "aaaa", "txt":
			if f.Len() == 0 {
				return true
			}
		}
	}
	return false
}

var headerType = reflect.TypeFor[dns.RR_Header]()
