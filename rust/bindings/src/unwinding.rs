//! Python's functions that may run Python code, as calls that a thread's end may unwind up to.
//!
//! `pyo3::ffi` declares the same functions as ones that never unwind. Where both declarations come into
//! one module, as under link-time optimization, that promise holds for either, and the compiler leaves
//! out what has to run while the thread's end unwinds. So each is called by a pointer that the compiler
//! knows nothing of.

use std::ffi::c_int;
use std::hint::black_box;
use std::mem::forget;

use pyo3::ffi::PyObject;

/// Stops the thread for good if it is dropped, which only the unwinding of a thread that ends does.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Functions of Python under names of our own; a thread that ends inside one stays there.
macro_rules! outlasting {
    ($($(#[$doc:meta])* $name:ident = $python:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {
        mod python {
            use super::*;

            unsafe extern "C-unwind" {
                $(pub fn $python($($arg: $type),*) $(-> $ret)?;)*
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The thread is attached, and the objects are alive.
            pub unsafe fn $name($($arg: $type),*) $(-> $ret)? {
                let function: unsafe extern "C-unwind" fn($($type),*) $(-> $ret)? =
                    black_box(python::$python);
                let stop = Stop;
                // SAFETY: as the caller says.
                let answer = unsafe { function($($arg),*) };
                forget(stop);
                answer
            }
        )*
    };
}

outlasting! {
    /// A new reference to what `callable` returns, or null.
    call_object = PyObject_CallObject(callable: *mut PyObject, args: *mut PyObject) -> *mut PyObject;
    /// A new reference to an attribute, or null.
    attribute = PyObject_GetAttr(object: *mut PyObject, name: *mut PyObject) -> *mut PyObject;
    /// A new reference to an entry, or null.
    item = PyObject_GetItem(object: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
    /// A new list of what an object yields, or null.
    list = PySequence_List(object: *mut PyObject) -> *mut PyObject;
    /// A new string, or null.
    repr = PyObject_Repr(object: *mut PyObject) -> *mut PyObject;
    /// A new string, or null.
    text = PyObject_Str(object: *mut PyObject) -> *mut PyObject;
    /// A new reference to a module, or null.
    import = PyImport_Import(name: *mut PyObject) -> *mut PyObject;
    /// 1 or 0, or -1 for an error.
    compare = PyObject_RichCompareBool(one: *mut PyObject, other: *mut PyObject, how: c_int) -> c_int;
    /// Reports the error that is set to `sys.unraisablehook`.
    write_unraisable = PyErr_WriteUnraisable(object: *mut PyObject);
    /// A reference less.
    give_up = Py_DecRef(object: *mut PyObject);
}
