// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Class is the kind of a tool call, as far as its name and arguments tell.
type Class uint8

// The classes. ClassNone is a block that is neither a call nor the result of one.
const (
	ClassNone Class = iota
	ClassOther
	ClassRead
	ClassEdit
	ClassWrite
	ClassSearch
	ClassCommand
)

// Classes is the number of classes, for arrays indexed by Class.
const Classes = int(ClassCommand) + 1

var classNames = [Classes]string{"none", "other", "read", "edit", "write", "search", "command"}

// ClassNames returns the names of all classes.
func ClassNames() []string { return classNames[:] }

// String returns the name of the class as in metrics and reports.
func (c Class) String() string { return classNames[c] }
