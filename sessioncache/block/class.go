// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package block

// Class is what a tool call does, as far as its name and arguments tell.
type Class uint8

// The classes. ClassNone is a block that neither is a call nor answers one.
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

// String returns the name of the class as it stands in metrics and reports.
func (c Class) String() string { return classNames[c] }
