// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package overlay keeps the prefix of prompts to a local server stable. Such a server caches
// tokens, and has to read everything after the first changed token again. So the system text and
// the tools at the beginning of a conversation stay byte for byte the same until everything changes
// anyway (an epoch). A note near the end reports the client's changes to them.
//
// The package works on requests in the upstream's format. It leaves uncertain cases unmodified.
package overlay
