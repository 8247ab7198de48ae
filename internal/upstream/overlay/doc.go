// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package overlay keeps the prefix of a box's prompts as it is. A box that runs a
// model has what it has read in its memory, token by token, and has to read
// again everything behind the first token that differs. So the system text and
// the tools that a conversation began with are sent in the same bytes until
// everything changes anyway (an epoch), and what clients change there travels
// as a note near the end.
//
// It works on requests as they go upstream, in the format that the upstream
// speaks. Whatever it is unsure of it leaves as it came.
package overlay
