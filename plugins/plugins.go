// SPDX-License-Identifier: Apache-2.0

// Package plugins links the plugins of puntdns, and has their order. They are listed in plugin.cfg.
package plugins

//go:generate go run ./generate -package plugins -from ../plugin.cfg
