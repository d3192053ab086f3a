// SPDX-License-Identifier: Apache-2.0

// Package build makes networks from rows, and router scopes from networks.
package build
