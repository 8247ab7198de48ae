// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package local supports a local server shared by a team. It provides a queue for the server's
// slots, stable prefixes of prompts, heartbeats while the server reads a prompt, requests that
// outlive their client, and load balancing over several servers. Subpackages are its libraries.
package local
