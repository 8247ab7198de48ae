// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package sessioncache remembers conversations: which requests belong together, which edits a
// conversation has committed to, and how warm its prefix is upstream.
//
// A [Session] is all traffic of one client conversation, for one credential, at one upstream. Each
// growing conversation in it (the main thread, each sub-agent, each side request) is a [Conversation],
// found by the longest common chain of canonical block hashes. Sessions contain no content, keys or
// credentials, except the short stubs in place of edited blocks.
//
// Absence is normal: every caller must work without a session.
package sessioncache
