! check.f90: what the tests share: conditions that must hold, and one sum of failures over all ranks.
module check
  implicit none
  private
  integer :: failures = 0
  public :: that, equal, failed
  interface equal
    module procedure equal_4, equal_8
  end interface
contains
  subroutine that(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(2a)', 'wrong: ', what
  end subroutine that
  subroutine equal_4(found, expected, what)
    integer, intent(in) :: found, expected
    character(len=*), intent(in) :: what
    if (found == expected) return
    failures = failures + 1
    print '(3a,i0,a,i0)', 'wrong: ', what, ' is ', found, ', expected ', expected
  end subroutine equal_4
  subroutine equal_8(found, expected, what)
    use, intrinsic :: iso_c_binding, only: c_int64_t
    integer(c_int64_t), intent(in) :: found
    integer, intent(in) :: expected
    character(len=*), intent(in) :: what
    call equal_4(int(found), expected, what)
  end subroutine equal_8
  integer function failed()
    failed = failures
  end function failed
end module check
