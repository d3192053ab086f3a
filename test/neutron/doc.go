// SPDX-License-Identifier: Apache-2.0

// Package neutron has the tests of puntdns under a real Neutron: ML2/OVN and ML2/OVS, its
// databases, message queue, API and agents, on a lab of package lab. What is set up is what
// docs/openstack.md says: its settings, commands and Corefiles are read out of the page.
//
// The tests are built with the tag neutron and run by make neutron, within the root of a
// Debian that has Neutron's packages: see test/root.sh and test/inroot.sh. Each property that
// has been shown gets a line on standard output. KEEP=1 leaves what a test has set up until
// SIGINT comes.
package neutron
