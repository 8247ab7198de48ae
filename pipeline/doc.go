// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pipeline decides which blocks of a request to edit, and how.
//
// Each stage is a pure function of the request, what is remembered of its
// conversation, and the options; it has a file of its own. What a stage does
// to a block is entered in the conversation's ledger and replayed, byte for
// byte, on every later request, so that the upstream's prefix cache keeps
// matching. When a stage may touch a block at all is the policy's to say.
package pipeline
